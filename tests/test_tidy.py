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
WHOLE_PACKAGE = (tidy.docstrings, tidy.cycles)
EVERY_SOURCE = (tidy.suppressions, tidy.honest_tests)


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


def test_the_tree_is_found() -> None:
    assert {source.folder for source in python_sources("src/")} >= {"", "model", "format", "api"}


# -- each rule can be broken ------------------------------------------------------------------

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * tidy.FUNCTION_LINES

BROKEN = [
    (tidy.layers, "model/x.py", "import hoodoo.format.avro"),
    (tidy.layers, "format/x.py", "from hoodoo.storage.storage import Storage"),
    (tidy.layers, "format/x.py", "from hoodoo import rows"),
    (tidy.layers, "table/x.py", "def f():\n    from hoodoo.write import commit"),
    (tidy.layers, "engine/x.py", "from hoodoo.env import Env"),
    (tidy.layers, "storage/x.py", "if TYPE_CHECKING:\n    from hoodoo.env import Env"),
    (tidy.layers, "metadata/x.py", "from hoodoo.table.read import y"),
    (tidy.layers, "api.py", "from hoodoo.testing import servers"),
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
    (tidy.world, "timeline/x.py", "from datetime import datetime\nt = datetime.now()"),
    (tidy.world, "timeline/x.py", "import datetime\nt = datetime.datetime.now()"),
    (tidy.world, "timeline/x.py", "from datetime import date\nt = date.today"),
    (tidy.world, "inspect/x.py", "print('x')"),
    (tidy.world, "storage/x.py", "import os\nos.environ['X']"),
    (tidy.world, "engine/x.py", "import os\nos.getenv('X')"),
    (tidy.callers, "write/x.py", "transitions.complete(txn, instant, metadata)"),
    (tidy.callers, "write/x.py", "from hoodoo.timeline.transitions import complete"),
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
    (tidy.honest_tests, "tests/x.py", "from unittest import mock"),
    (tidy.honest_tests, "tests/x.py", "from unittest.mock import patch"),
    (tidy.honest_tests, "tests/x.py", "from conftest import FIXTURES"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_a_module_breaks_it(rule: Callable[[Source], Iterator[str]], path: str, text: str) -> None:
    assert list(rule(Source(f"src/hoodoo/{path}", text)))


KEPT = [
    (tidy.layers, "write/x.py", "from hoodoo.timeline.txn import Txn\nfrom hoodoo import errors"),
    (tidy.layers, "env.py", "from hoodoo.storage import open_storage"),
    (tidy.layers, "api.py", "def f():\n    from hoodoo.spark.read import read"),
    (tidy.layers, "__init__.py", "from hoodoo.api import Table"),
    (tidy.layers, "testing/x.py", "from hoodoo.testing.y import z\nfrom hoodoo.api import Table"),
    (tidy.libraries, "model/x.py", "import re\nfrom hoodoo.errors import FormatError"),
    (tidy.libraries, "rows/x.py", "import pyarrow.compute as pc\nimport numpy as np"),
    (tidy.world, "cli/x.py", "import os\nprint(os.environ)"),
    (tidy.world, "storage/x.py", "import os\nopen(os.sep)"),
    (tidy.world, "table/x.py", "storage.open('x')\nclock.now()\nfrom datetime import datetime"),
    (tidy.callers, "concurrency/gate.py", "transitions.complete(txn, instant, metadata)"),
    (tidy.callers, "write/x.py", "transitions.request(txn, time, action)"),
    (tidy.names, "model/x.py", "class BaseFile: pass"),
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


@pytest.mark.parametrize(
    "text", ["see /" + "root/x", '"/' + 'home/someone"', "https://pypi" + ".org/simple"]
)
def test_a_place(text: str) -> None:
    assert list(tidy.places("x.md", text))
    assert not list(tidy.places("x.md", "/data/trips, work/home/x, pypi"))
