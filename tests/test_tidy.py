"""The tree keeps the rules of `tidy.py`, and each rule can be broken."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import tidy
from tidy import Source

ROOT = Path(__file__).resolve().parents[1]
CACHES = {".git", ".venv", "__pycache__", "demo-table", "build", "dist"}

# Larger than the rule allows, each with its reason; an exception that is not needed fails.
LARGE: dict[str, str] = {}


def files() -> list[Path]:
    """What is, or is about to be, in the repository."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive has no history
        return [path for path in sorted(ROOT.rglob("*")) if not CACHES & set(path.parts)]
    return [ROOT / name for name in told.decode().split("\0") if name]


@cache
def python_sources(folder: str = "") -> list[Source]:
    found = (path for path in files() if path.suffix == ".py" and path.is_file())
    named = ((path.relative_to(ROOT).as_posix(), path) for path in found)
    return [Source(name, path.read_text()) for name, path in named if name.startswith(folder)]


def check(complaints: Iterator[str]) -> None:
    told = list(complaints)
    assert not told, "\n" + "\n".join(told)


ONE_MODULE = (tidy.layers, tidy.libraries, tidy.world, tidy.callers, tidy.names)
WHOLE_PACKAGE = (
    tidy.docstrings,
    tidy.cycles,
    tidy.known_callers,
    tidy.parameters,
    tidy.class_names,
    tidy.participles,
    tidy.vague_names,
)
EVERY_SOURCE = (tidy.suppressions, tidy.honest_tests, tidy.packing)


@pytest.mark.parametrize("rule", ONE_MODULE, ids=lambda rule: rule.__name__)
def test_modules(rule: Callable[[Source], Iterator[str]]) -> None:
    check(told for source in python_sources("src/") for told in rule(source))


@pytest.mark.parametrize("rule", WHOLE_PACKAGE, ids=lambda rule: rule.__name__)
def test_package(rule: Callable[[list[Source]], Iterator[str]]) -> None:
    check(rule(python_sources("src/")))


def test_sizes() -> None:
    large = {
        told
        for source in python_sources("src/")
        for told in tidy.sizes(source)
        if source.path not in LARGE
    }
    check(iter(sorted(large)))


def test_exceptions_are_needed() -> None:
    for path, reason in LARGE.items():
        assert reason
        assert list(tidy.sizes(Source(path, (ROOT / path).read_text()))), f"{path} is small by now"


@pytest.mark.parametrize("rule", EVERY_SOURCE, ids=lambda rule: rule.__name__)
def test_all_python(rule: Callable[[Source], Iterator[str]]) -> None:
    check(told for source in python_sources() for told in rule(source))


def test_places() -> None:
    named = ((path.relative_to(ROOT).as_posix(), path) for path in files() if path.is_file())
    check(
        told
        for name, path in named
        for told in tidy.places(name, path.read_text("utf-8", "ignore"))
    )


def test_promises() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    check(
        told
        for path in pages
        for told in tidy.promises(path.relative_to(ROOT).as_posix(), path.read_text())
    )


def test_the_tree_is_found() -> None:
    assert {source.folder for source in python_sources("src/")} >= {"", "model", "format", "api"}


# -- each rule can be broken ------------------------------------------------------------------

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * tidy.FUNCTION_LINES

BROKEN = [
    (tidy.layers, "model/x.py", "import hoodoo.format.avro.container"),
    (tidy.layers, "format/x.py", "from hoodoo.storage.storage import Storage"),
    (tidy.layers, "format/x.py", "from hoodoo import rows"),
    (tidy.layers, "table/x.py", "def f():\n    from hoodoo.write import commit"),
    (tidy.layers, "storage/x.py", "from hoodoo.runtime.env import Env"),
    (tidy.layers, "write/files/x.py", "from hoodoo.write.commit.begin import begin"),
    (tidy.layers, "write/elsewhere/x.py", "from hoodoo.write.index import index_of"),
    (tidy.layers, "storage/x.py", "if TYPE_CHECKING:\n    from hoodoo.runtime.env import Env"),
    (tidy.layers, "metadata_table/x.py", "from hoodoo.read.scan import y"),
    (tidy.layers, "api.py", "from hoodoo_testing import servers"),
    (tidy.layers, "api.py", "from hoodoo.cli.main import run"),
    (tidy.layers, "model/x.py", "from . import y"),
    (tidy.layers, "elsewhere/x.py", ""),
    (tidy.libraries, "model/x.py", "import numpy as np"),
    (tidy.libraries, "config/x.py", "def f():\n    import pyarrow.parquet"),
    (tidy.libraries, "write/x.py", "import obstore"),
    (tidy.libraries, "rows/x.py", "from fastavro.schema import parse_schema"),
    (tidy.libraries, "table/x.py", "import hudi"),
    (tidy.libraries, "write/x.py", "from pyspark.sql import DataFrame"),
    (tidy.world, "format/x.py", "import os"),
    (tidy.world, "format/x.py", "from os import path"),
    (tidy.world, "write/x.py", "def f():\n    import time"),
    (tidy.world, "write/x.py", "from concurrent.futures import ThreadPoolExecutor"),
    (tidy.world, "table/x.py", "with open('x') as f:\n    pass"),
    (tidy.world, "table/x.py", "from datetime import datetime\nt = datetime.now()"),
    (tidy.world, "table/x.py", "import datetime\nt = datetime.datetime.now()"),
    (tidy.world, "table/x.py", "from datetime import date\nt = date.today"),
    (tidy.world, "inspect/x.py", "print('x')"),
    (tidy.world, "storage/x.py", "import os\nos.environ['X']"),
    (tidy.world, "runtime/x.py", "import os\nos.getenv('X')"),
    (tidy.callers, "write/x.py", "replace_head(env, known, decision, within_s=1)"),
    (tidy.callers, "write/x.py", "head.replace_head(env, known, decision, within_s=1)"),
    (
        tidy.callers,
        "write/x.py",
        "from hoodoo.concurrency.transactions.head import replace_head as take",
    ),
    (tidy.callers, "write/x.py", "txn = Txn(env, paths, timeline, lock)"),
    (tidy.sizes, "model/x.py", "\n" * (tidy.MODULE_LINES + 1)),
    (tidy.sizes, "model/x.py", LONG_FUNCTION),
    (tidy.names, "model/x.py", "class HoodieTable: pass"),
    (tidy.names, "model/x.py", "class LockManager: pass"),
    (tidy.names, "model/x.py", "class PathUtils: pass"),
    (tidy.names, "model/x.py", "def f():\n    class ReaderFactory: pass"),
    (tidy.names, "model/utils.py", ""),
    (tidy.suppressions, "model/x.py", "import x  # noqa"),
    (tidy.suppressions, "model/x.py", "import x  # noqa: F401"),
    (tidy.suppressions, "model/x.py", "x = y  # type: ignore"),
    (tidy.suppressions, "model/x.py", "x = y  # type: ignore[arg-type]"),
    (tidy.suppressions, "model/x.py", "x = y  # type: ignore  # because we say so"),
    (tidy.suppressions, "model/x.py", "# ruff: noqa: F401 - all of it"),
    (tidy.suppressions, "model/x.py", "x = y  # pragma: no cover"),
    (tidy.packing, "model/x.py", "f(*(a, b), c)"),
    (tidy.packing, "model/x.py", "f(x, *[a, b], c=d)"),
    (tidy.honest_tests, "tests/x.py", "from unittest import mock"),
    (tidy.honest_tests, "tests/x.py", "from unittest.mock import patch"),
    (tidy.honest_tests, "tests/x.py", "from conftest import FIXTURES"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_module_breaks_it(rule: Callable[[Source], Iterator[str]], path: str, text: str) -> None:
    assert list(rule(Source(f"src/hoodoo/{path}", text)))


KEPT = [
    (
        tidy.layers,
        "write/x.py",
        "from hoodoo.concurrency.transactions.transaction import Txn\nfrom hoodoo import errors",
    ),
    (tidy.layers, "runtime/env.py", "from hoodoo.storage import open_storage"),
    (tidy.layers, "api.py", "def f():\n    from hoodoo.spark.read.read import read"),
    (tidy.layers, "__init__.py", "from hoodoo.api import Table"),
    (tidy.layers, "testing/x.py", "from hoodoo_testing.y import z\nfrom hoodoo.api import Table"),
    (tidy.libraries, "model/x.py", "import re\nfrom hoodoo.errors import FormatError"),
    (tidy.libraries, "rows/x.py", "import pyarrow.compute as pc\nimport numpy as np"),
    (tidy.world, "cli/x.py", "import os\nprint(os.environ)"),
    (tidy.world, "storage/x.py", "import os\nopen(os.sep)"),
    (tidy.world, "table/x.py", "storage.open('x')\nclock.now()\nfrom datetime import datetime"),
    (
        tidy.callers,
        "concurrency/transactions/gate.py",
        "replace_head(env, known, decision, within_s=1)",
    ),
    (tidy.callers, "write/x.py", "_replace_head(txn, decision)\nself.replace_head()"),
    (tidy.names, "model/x.py", "class BaseFile: pass"),
    (tidy.packing, "model/x.py", "f(*a, [*(b, c)], {*(d, e)})"),
    (tidy.suppressions, "model/x.py", "import x  # noqa: F401 - for its effect"),
    (tidy.suppressions, "model/x.py", "x = y  # type: ignore[arg-type]  # the cast did it"),
    (tidy.suppressions, "model/x.py", "x = 'y  # noqa'"),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_a_module_keeps_it(rule: Callable[[Source], Iterator[str]], path: str, text: str) -> None:
    assert not list(rule(Source(f"src/hoodoo/{path}", text)))


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '"""Doc."""\ndef f(): return 1',
        '"""Doc."""\nclass C: pass',
        '"""Doc."""\nclass C:\n    """Doc."""\n    def m(self):\n        x = 1\n        return x',
    ],
)
def test_a_docstring_is_missing(text: str) -> None:
    assert list(tidy.docstrings([Source("src/hoodoo/model/x.py", text)]))


def test_a_protocol_tells_for_its_methods() -> None:
    method = "    def m(self):\n        x = 1\n        return x\n"
    protocol = '"""Doc."""\nclass P(Protocol):\n    """Doc."""\n    def m(self): ...\n'
    text = protocol + 'class C:\n    """Doc."""\n' + method
    assert not list(tidy.docstrings([Source("src/hoodoo/model/x.py", text)]))


def test_a_cycle() -> None:
    there = Source("src/hoodoo/model/a.py", "from hoodoo.model.b import f")
    back = Source("src/hoodoo/model/b.py", "def f():\n    from hoodoo.model import a")
    for_types = Source("src/hoodoo/model/b.py", "if TYPE_CHECKING:\n    import hoodoo.model.a")
    assert list(tidy.cycles([there, back]))
    assert not list(tidy.cycles([there, for_types]))


HEAD = Source("src/hoodoo/concurrency/transactions/head.py", "def replace_head(): pass")
TXN = Source("src/hoodoo/concurrency/transactions/transaction.py", "class Txn: pass\nTxn()")
CALLERS = [Source("src/hoodoo/concurrency/transactions/gate.py", "head.replace_head()")]


def test_callers_are_known() -> None:
    assert not list(tidy.known_callers([HEAD, TXN, *CALLERS]))
    assert list(tidy.known_callers([HEAD, *CALLERS]))
    assert list(tidy.known_callers([HEAD, Source(TXN.path, "class Transaction: pass"), *CALLERS]))
    assert list(tidy.known_callers([HEAD, TXN]))
    assert list(tidy.known_callers([HEAD, TXN, Source(CALLERS[0].path, "f()")]))


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ('def f(columns):\n    """Rows in the columns `shown`."""', False),
        ('class C:\n    def m(self, columns):\n        """Of `wanted`."""', False),
        ('def f(columns):\n    """Rows in these `columns`, as of `g` and `None`."""', True),
        ('def f(a):\n    def g():\n        """More than `args`, `abc` and ``x``."""', False),
        ('def f(abc):\n    def g(*args):\n        """More than `args` and `abc`."""', True),
        ('KEY = "bloom_filters"\ndef f():\n    """For `bloom_filters`, by `os.path`."""', True),
        (
            'class C:\n    size: int\ndef f(c):\n    """By `size`, see `model`."""',
            True,
        ),
    ],
)
def test_parameters_in_docstrings(text: str, is_kept: bool) -> None:
    assert bool(list(tidy.parameters([Source("src/hoodoo/model/x.py", text)]))) is not is_kept


def test_class_names(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Source("src/hoodoo/model/a.py", "class Same: pass\nclass _Own: pass")
    other = Source("src/hoodoo/model/b.py", "class Same: pass\nclass _Own: pass")
    monkeypatch.setattr(tidy, "SAME_NAMES", set())
    assert not list(tidy.class_names([one]))
    assert len(list(tidy.class_names([one, other]))) == 1
    monkeypatch.setattr(tidy, "SAME_NAMES", {"Same"})
    assert not list(tidy.class_names([one, other]))
    assert list(tidy.class_names([one]))


@pytest.mark.parametrize(
    "text", ["found = 1", "def f(given): pass", "for _kept in (): pass", "f(lambda listed: 1)"]
)
def test_participles(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("src/hoodoo/model/x.py", f"{text}\nseed = is_listed = changed_rows = feed = 1")
    monkeypatch.setattr(tidy, "MOST_PARTICIPLES", 10.0)
    assert list(tidy.participles([source]))
    monkeypatch.setattr(tidy, "MOST_PARTICIPLES", 25.0)
    assert not list(tidy.participles([source]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def kept(): pass", "kept"),
        ("class _Counted: pass", "_Counted"),
        ("_STORED = 1", "_STORED"),
        ("class C:\n    mine: int", "C.mine"),
        ("class C:\n    def others(self): pass", "C.others"),
        ("class C:\n    def __init__(self): self.failed = 1", "C.failed"),
        ("if x:\n    _each = 1", "_each"),
    ],
)
def test_vague_names(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("src/hoodoo/model/x.py", text)
    monkeypatch.setattr(tidy, "NAMES_LEFT", set())
    monkeypatch.setattr(tidy, "VAGUE_NAMES", {})
    (complaint,) = tidy.vague_names([source])
    assert f" {name} " in complaint
    monkeypatch.setattr(tidy, "VAGUE_NAMES", {name: "a reason"})
    assert not list(tidy.vague_names([source]))
    assert list(tidy.vague_names([]))


def test_names_that_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "NAMES_LEFT", set())
    monkeypatch.setattr(tidy, "VAGUE_NAMES", {})
    text = """class State(StrEnum):
    COMPLETED = "completed"
class TableChanged:
    def __init__(self):
        self._started = found = 1
class ChangeFeed: pass
IS_DELETED = 1
def count_deleted(): pass
"""
    assert not list(tidy.vague_names([Source("src/hoodoo/model/x.py", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "archival, once hoodoo has it",
        "by clean, once there is one",
        "for what is to come",
        "This is not yet done",
    ],
)
def test_a_promise(text: str) -> None:
    assert list(tidy.promises("x.md", text))
    assert not list(tidy.promises("x.md", "rows have to come first; once there are rows; Once"))


@pytest.mark.parametrize(
    "text", ["see /" + "root/x", '"/' + 'home/someone"', "https://pypi" + ".org/simple"]
)
def test_a_place(text: str) -> None:
    assert list(tidy.places("x.md", text))
    assert not list(tidy.places("x.md", "/data/trips, work/home/x, pypi"))
