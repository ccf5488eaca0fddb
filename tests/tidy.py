"""The rules of the house that no linter knows, as functions from source text to complaints.

`docs/architecture.md` says why; `test_tidy.py` applies them to the tree, and to small sources that
break each of them. Imports inside functions count like those at the top of a module.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

# A folder imports itself and the lines above its own; neighbours on a line leave each other alone.
LAYERS = (
    ("errors",),
    ("model",),
    ("config",),
    ("format",),
    ("rows",),
    ("storage",),
    ("env", "engine"),
    ("timeline",),
    ("metadata",),
    ("table",),
    ("concurrency",),
    ("recovery",),
    ("index",),
    ("write",),
    ("services",),
    ("inspect", "spark"),
    ("api",),
    ("streaming",),
    ("cli", "console"),
)
RANK = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}

# What touches the world, and who may: all others are handed an `Env`.
WORLDLY_MODULES = {
    *("os", "time", "random", "uuid", "threading", "concurrent", "multiprocessing", "asyncio"),
    *("pathlib", "shutil", "tempfile", "glob", "subprocess", "socket", "secrets", "signal"),
}
WORLDLY_CALLS = {"open", "print", "input"}
CLOCKS = {"now", "utcnow", "today"}
WORLDLY_FOLDERS = {"storage", "env", "engine", "spark", "cli", "console", "testing"}
READS_ENVIRONMENT = {"cli", "testing", "hoodoo.spark.configure"}

STDLIB_ONLY = {"errors", "model", "config"}
HOMES = {
    "obstore": {"storage"},
    "fastavro": {"format"},
    "pyspark": {"spark", "api", "testing"},
    "kazoo": {"concurrency"},
    "typer": {"cli"},
    "rich": {"cli"},
    "pytest": {"testing"},
    "hudi": {"cli"},  # the tour shows what it reads
}

# What only one module may call: how an instant is completed, and how a transaction is made.
SOLE_CALLERS = {
    "transitions.complete": "hoodoo.concurrency.gate",
    "Txn": "hoodoo.concurrency.transaction",
}

MODULE_LINES = 400
FUNCTION_LINES = 70

BAD_CLASS_NAME = re.compile(r"^_?Hoodie|(Manager|Utils?|Helpers?|Factory|Base|Impl)$")
BAD_MODULE_NAME = re.compile(r"^(utils?|helpers?|common|misc|managers?|factory|factories)$")
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|ruff:|mypy:|pyright:|pylint:)")
EXPLAINED = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, [A-Z]+\d+)*|type: ignore\[[\w-]+(, ?[\w-]+)*\])"
    r"\s+([-#]\s*)?\w\S* \w\S*"
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(root|home|work|Users)/\w+")
REGISTRY = re.compile(r"\b(pypi|pythonhosted|npmjs|anaconda|maven(\.apache)?)\.(org|com)\b")


@dataclass(frozen=True)
class Source:
    """A Python file: its path in the repository and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names from the package down: `src/hoodoo/format/avro.py` is (hoodoo, format, avro)."""
        path = PurePosixPath(self.path).with_suffix("")
        names = tuple(part for part in path.parts if part != "src")
        return names[:-1] if names[-1] == "__init__" else names

    @property
    def module(self) -> str:
        return ".".join(self.parts)

    @property
    def folder(self) -> str:
        """The name below the package, which decides the layer; "" is the package itself."""
        return self.parts[1] if len(self.parts) > 1 else ""

    def complain(self, node: ast.AST, text: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {text}"


def imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Each import with the module that it names; of `from a import b`, both `a` and `a.b`."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "." * node.level
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


# -- rules for one module of the package ------------------------------------------------------


def layers(source: Source) -> Iterator[str]:
    """Imports go down."""
    own = source.folder
    if own and own not in RANK and own != "testing":
        yield source.complain(source.tree, f"`{own}` is in no layer")
        return
    for node, name in imports(source):
        if name.startswith("."):
            yield source.complain(node, "relative import")
        package, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if package != "hoodoo" or other in ("", own) or own in ("", "testing"):
            continue
        if other == "testing":
            yield source.complain(node, "only tests import hoodoo.testing")
        elif other in RANK and RANK[other] >= RANK[own]:
            yield source.complain(node, f"`{own}` may not import `{other}`")


def libraries(source: Source) -> Iterator[str]:
    """The lowest layers need nothing but Python; some libraries have one home."""
    for node, name in imports(source):
        top = name.partition(".")[0]
        if top in ("hoodoo", ""):
            continue
        if source.folder in STDLIB_ONLY and top not in sys.stdlib_module_names:
            yield source.complain(node, f"`{source.folder}` is standard library only: {top}")
        elif source.folder not in HOMES.get(top, {source.folder}):
            yield source.complain(node, f"{top} does not belong into `{source.folder}`")


def world(source: Source) -> Iterator[str]:
    """Nothing but the seam touches files, clocks, chance, threads or the environment."""
    for node in ast.walk(source.tree):
        is_environ = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        if is_environ and not READS_ENVIRONMENT & {source.folder, source.module}:
            yield source.complain(node, "only the command line reads the environment")
    if source.folder in WORLDLY_FOLDERS:
        return
    for statement, name in imports(source):
        if name.partition(".")[0] in WORLDLY_MODULES:
            yield source.complain(statement, f"{name} belongs behind the seam")
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in WORLDLY_CALLS:
                yield source.complain(node, f"{name}() belongs behind the seam")
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"),
                attr=name,
            ) if name in CLOCKS:
                yield source.complain(node, f"{name}() belongs behind the seam")


def callers(source: Source) -> Iterator[str]:
    """The gate is the only way to publish."""
    for node in ast.walk(source.tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if source.module != SOLE_CALLERS.get(called, source.module):
            yield source.complain(node, f"only {SOLE_CALLERS[called]} calls {called}")
    for node, name in imports(source):
        if name == "hoodoo.timeline.transitions.complete":
            yield source.complain(node, "import the module, so that its calls can be found")


def sizes(source: Source) -> Iterator[str]:
    """Modules and functions that fit into a head."""
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES:
        yield source.complain(source.tree, f"{lines} lines (at most {MODULE_LINES})")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                told = f"{node.name} has {lines} lines (at most {FUNCTION_LINES})"
                yield source.complain(node, told)


def names(source: Source) -> Iterator[str]:
    """The format's own words: no prefixes, no managers."""
    if BAD_MODULE_NAME.search(source.parts[-1]):
        yield source.complain(source.tree, f"{source.parts[-1]} says nothing about its content")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and BAD_CLASS_NAME.search(node.name):
            yield source.complain(node, f"class {node.name} is not named for what it is")


# -- rules for the whole package --------------------------------------------------------------


def docstrings(sources: Iterable[Source]) -> Iterator[str]:
    """A sentence on every public name.

    Methods may do without if they are one statement, or if a protocol of ours tells of them.
    """
    sources = list(sources)
    told = {name for source in sources for name in _protocol_methods(source)}
    for source in sources:
        if source.text.strip() and not ast.get_docstring(source.tree):
            yield source.complain(source.tree, "the module has no docstring")
        for node in source.tree.body:
            if not _is_public(node):
                continue
            if not ast.get_docstring(node):
                yield source.complain(node, f"{node.name} has no docstring")
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                is_told = isinstance(method, ast.FunctionDef) and (
                    len(method.body) == 1
                    or method.name in told
                    or method.name.startswith("test_")
                    or ast.get_docstring(method)
                )
                if _is_public(method) and not is_told:
                    yield source.complain(method, f"{node.name}.{method.name} has no docstring")


def _is_public(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
        return False
    return "overload" not in (ast.unparse(each) for each in node.decorator_list)


def _protocol_methods(source: Source) -> Iterator[str]:
    for node in source.tree.body:
        is_class = isinstance(node, ast.ClassDef)
        if is_class and any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            yield from (item.name for item in node.body if isinstance(item, ast.FunctionDef))


def cycles(sources: Iterable[Source]) -> Iterator[str]:
    """No module imports itself by way of others; imports for types alone do not count."""
    graph = {source.module: set[str]() for source in sources}
    for source in sources:
        hidden = {id(node) for block in _typing_blocks(source) for node in ast.walk(block)}
        for node, name in imports(source):
            is_name_of = f"{name}." in {f"{other}." for other in graph}
            if is_name_of and name != source.module and id(node) not in hidden:
                graph[source.module].add(name)
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> Iterator[str]:
        if module in trail:
            yield "cycle: " + " -> ".join((*trail[trail.index(module) :], module))
        elif module not in done:
            for other in sorted(graph[module]):
                yield from visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        yield from visit(module, ())


def _typing_blocks(source: Source) -> Iterator[ast.If]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


# -- rules for every file ---------------------------------------------------------------------


def suppressions(source: Source) -> Iterator[str]:
    """Who silences a tool says which rule, and why."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        text = token.string if token.type == tokenize.COMMENT else ""
        if SUPPRESSION.search(text) and not EXPLAINED.search(text):
            told = "a suppression needs a code and a reason"
            yield f"{source.path}:{token.start[0]}: {told}: {text}"


def honest_tests(source: Source) -> Iterator[str]:
    """Tests run the real code, and find what they share whichever of them run together."""
    for node, name in imports(source):
        if name in ("mock", "unittest.mock"):
            yield source.complain(node, "no mocks")
        elif name == "conftest":  # there are several, and the last one loaded has the name
            yield source.complain(node, "import from tests/support, not from conftest")


def places(path: str, text: str) -> Iterator[str]:
    """Files hold on every machine: no paths of one of them, no hosts of package registries."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ((MACHINE_PATH, "a machine's path"), (REGISTRY, "a registry's host")):
            if found := pattern.search(line):
                yield f"{path}:{number}: {what}: {found.group()}"
