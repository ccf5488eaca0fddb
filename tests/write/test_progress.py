"""Writes and services tell how far they are, whoever listens."""

from __future__ import annotations

import types
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Progress
from hoodoo.cli.output import progress as bars

ROWS = [{"id": number, "city": f"c{number}"} for number in range(5)]
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    return hoodoo.create_table(
        tmp_path / "t", schema=SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )


def phases(steps: list[Progress]) -> list[str]:
    return list(dict.fromkeys(step.phase for step in steps))


def test_a_write_tells_its_phases_and_files(table: hoodoo.Table) -> None:
    steps: list[Progress] = []
    table.upsert(ROWS, progress=steps.append)
    assert phases(steps) == ["prepare", "locate", "assign", "begin", "write", "finalize", "commit"]
    counted = [step for step in steps if step.phase == "write" and step.total]
    assert sorted(step.done for step in counted) == [0, 1, 2, 3, 4, 5]
    assert {step.total for step in counted} == {5}
    assert steps[-1] == Progress("commit", 1, 1)


@pytest.mark.parametrize("name", ["delete", "delete_partitions", "insert_overwrite", "bulk_insert"])
def test_every_write_tells_of_its_commit(table: hoodoo.Table, name: str) -> None:
    table.insert(ROWS)
    steps: list[Progress] = []
    given = {"delete": [1], "delete_partitions": ["city=c1"]}.get(name, ROWS)
    getattr(table, name)(given, progress=steps.append)
    assert steps[-1] == Progress("commit", 1, 1)


@pytest.mark.parametrize("name", ["delete", "update", "merge"])
def test_changes_by_predicate_tell_of_files_read_and_of_the_commit(
    table: hoodoo.Table, name: str
) -> None:
    table.insert(ROWS)
    given = {
        "delete": {"where": "id > 1"},
        "update": {"set": {"city": "'x'"}, "where": "id > 1"},
        "merge": {"source": ROWS, "on": "id", "when_matched_delete": "source.id > 1"},
    }[name]
    steps: list[Progress] = []
    if name == "merge":
        given["source"] = pa.Table.from_pylist(ROWS, SCHEMA)
    getattr(table, name)(**given, progress=steps.append)
    assert phases(steps)[:2] == ["read", "prepare"]
    counted = [step for step in steps if step.phase == "read" and step.total]
    assert max(step.done for step in counted) == counted[-1].total >= 3
    assert steps[-1] == Progress("commit", 1, 1)


def test_services_after_a_write_tell_of_their_items(tmp_path: Path) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    table = hoodoo.create_table(
        tmp_path / "t", schema=SCHEMA, record_key="id", table_type="mor", options=options
    )
    table.insert(ROWS)
    steps: list[Progress] = []
    table.upsert(ROWS, progress=steps.append)
    assert phases(steps)[-2:] == ["commit", "compaction"]
    assert steps[-1] == Progress("compaction", 1, 1)


def test_what_a_listener_raises_undoes_the_write_until_it_is_committed(
    table: hoodoo.Table, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_at(phase: str, done: int):
        def tell(step: Progress) -> None:
            if (step.phase, step.done) == (phase, done):
                raise RuntimeError("enough")

        return tell

    for step in (("prepare", 0), ("write", 2), ("commit", 0)):
        with pytest.raises(RuntimeError, match="enough"):
            table.insert(ROWS, progress=fail_at(*step))
        assert table.count() == 0
    assert table.insert(ROWS, progress=fail_at("commit", 1)).stats.inserted == 5
    assert "progress_not_told" in caplog.text
    assert table.count() == 5


def test_a_notebook_gets_a_line_that_changes(table: hoodoo.Table) -> None:
    shown: list[str] = []

    class Line:
        def update(self, text: str) -> None:
            shown.append(text)

    notebook = types.SimpleNamespace(HTML=str, display=lambda text, display_id: Line())
    table.insert(ROWS, progress=bars._show_in_notebook("<load>", notebook))
    assert shown[0] == "&lt;load&gt; prepare"
    assert '&lt;load&gt; write <progress value="5" max="5"></progress> 5/5' in shown


def test_where_nobody_looks_nothing_is_shown(
    table: hoodoo.Table, capfd: pytest.CaptureFixture[str]
) -> None:
    with hoodoo.show_progress("load") as progress:
        table.insert(ROWS, progress=progress)
    assert capfd.readouterr() == ("", "")
