"""Every public method and function has an example in its docstring, and the example is true."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hoodoo
from hoodoo import api

ROWS = [
    {"id": 1, "city": "sf", "fare": 19.1, "ts": 1},
    {"id": 2, "city": "sf", "fare": 27.7, "ts": 1},
    {"id": 3, "city": "oslo", "fare": 17.85, "ts": 1},
]
BY_SPARK = {"read", "configure", "register"}  # the suite of Spark runs what they show
ELSEWHERE = {"changes", "stream_to"}  # the pages about changes and streams show them


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of the interface, the table, and its methods."""
    yield "Table", hoodoo.Table
    for name, function in inspect.getmembers(api, inspect.isfunction):
        if name in hoodoo.__all__:
            yield name, function
    for name, method in inspect.getmembers(hoodoo.Table, inspect.isfunction):
        if not name.startswith("_"):
            yield name, method


PUBLIC = dict(public())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the examples, written once; each example has a copy."""
    place = tmp_path_factory.mktemp("written")
    frame = pa.Table.from_pylist(ROWS)
    table = hoodoo.create_table(
        place / "trips", schema=frame.schema, record_key="id", partition_by="city", ordering="ts"
    )
    table.insert(frame)
    mor = hoodoo.create_table(place / "mor", schema=frame.schema, record_key="id", table_type="mor")
    mor.insert(frame)
    mor.upsert(ROWS[:1])
    return place


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - BY_SPARK - ELSEWHERE))
def test_the_example_of_a_docstring_is_true(
    name: str, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    table, mor = hoodoo.open_table("trips"), hoodoo.open_table("mor")
    names = {"hoodoo": hoodoo, "table": table, "mor": mor, "rows": ROWS, "pa": pa, "pd": pd}
    text = inspect.getdoc(PUBLIC[name]) or ""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert test.examples, f"{name} has no example"
    told: list[str] = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL, verbose=False
    )
    failed = runner.run(test, out=told.append).failed
    assert not failed, "".join(told)


@pytest.mark.parametrize("name", sorted(BY_SPARK))
def test_calls_of_spark_show_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert [line for line in text.splitlines() if line.startswith((" ", ">>>")) and "spark" in line]


def test_every_argument_and_result_has_a_type() -> None:
    for name, function in PUBLIC.items():
        signature = inspect.signature(function)
        untyped = [
            each.name
            for each in signature.parameters.values()
            if each.annotation is inspect.Parameter.empty and each.name != "self"
        ]
        assert not untyped, f"{name}: {untyped}"
        assert name == "Table" or signature.return_annotation is not inspect.Signature.empty


def test_every_error_is_importable_from_the_package() -> None:
    from hoodoo import errors

    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    kinds = {name for name, kind in classes.items() if issubclass(kind, Exception)}
    assert {"InputError", "WriteConflict", "CommitUnknown"} <= kinds <= set(hoodoo.__all__)
    for name in kinds:
        assert getattr(hoodoo, name) is vars(errors)[name]
