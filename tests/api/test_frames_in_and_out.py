"""Frames in, frames out: what a table takes from pandas, polars and others, and gives back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.archives import archive

import hoodoo
from hoodoo.errors import InputError, ObjectNotFound, SchemaMismatch, TableExists
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model.instant import Action

ROWS = [
    {"id": 1, "city": "sf", "fare": 19.1, "ts": 1},
    {"id": 2, "city": "sf", "fare": 27.7, "ts": 1},
    {"id": 3, "city": "oslo", "fare": 17.85, "ts": 1},
]
FRAME = pa.Table.from_pylist(ROWS)
COLUMNS = FRAME.column_names


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> hoodoo.Table:
    return hoodoo.create_table(
        tmp_path / "trips",
        schema=FRAME.schema,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=request.param,
    )


def found(table: hoodoo.Table) -> list[dict[str, object]]:
    return sorted(table.to_arrow(columns=COLUMNS).to_pylist(), key=lambda row: row["id"])


class Stream:
    """Rows that can be read once."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader, self._reader = self._reader, None
        return reader.__arrow_c_stream__(requested_schema)

    def __init__(self) -> None:
        self._reader = FRAME.to_reader()


KINDS = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, key in the index": lambda: pd.DataFrame(ROWS).set_index("id"),
    "polars": lambda: pl.DataFrame(ROWS),
    "reader": lambda: FRAME.to_reader(),
    "batch": lambda: FRAME.to_batches()[0],
    "stream": Stream,
    "dicts": lambda: ROWS,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_write_takes_rows_of_every_kind(kind: str, table: hoodoo.Table) -> None:
    for write in (
        table.insert,
        table.upsert,
        table.insert_overwrite,
        table.insert_overwrite_table,
        table.bulk_insert,
    ):
        assert write(KINDS[kind]()).stats.files > 0
        expected = (
            ROWS if write != table.bulk_insert else sorted([*ROWS, *ROWS], key=lambda r: r["id"])
        )
        assert found(table) == expected
    table.insert_overwrite_table(KINDS[kind]())
    assert table.delete(KINDS[kind]()).stats.deleted == 3
    assert found(table) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_takes_rows_of_every_kind(kind: str, table: hoodoo.Table) -> None:
    table.insert([{**ROWS[0], "fare": 1.0}])
    done = table.merge(
        KINDS[kind](),
        on=["id", "city"],
        when_matched_update={"fare": "source.fare"},
        when_not_matched_insert=True,
    )
    assert done is not None
    assert found(table) == ROWS


def test_dicts_to_merge_may_have_columns_that_the_table_lacks(table: hoodoo.Table) -> None:
    table.insert(ROWS)
    done = table.merge(
        [{"id": 1, "city": "sf"}, {"id": 2, "city": "sf", "op": "D"}, {"id": 3, "op": None}],
        on="id",
        when_matched_delete="source.op = 'D'",
    )
    assert done is not None
    assert done.stats.deleted == 1
    assert found(table) == [ROWS[0], ROWS[2]]


def test_a_stream_survives_a_retry(tmp_path: Path) -> None:
    options = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    table = hoodoo.create_table(tmp_path / "t", schema=FRAME, record_key="id", options=options)
    table.insert(FRAME)
    met = []

    def meet(step: hoodoo.Progress) -> None:
        if step.phase == "finalize" and not met:
            met.append(step)
            raise hoodoo.WriteConflict("another one")

    assert table.upsert(FRAME.to_reader(), progress=meet).stats.updated == 3
    assert met
    assert table.count() == 3


def test_rows_go_round_through_each_library(table: hoodoo.Table) -> None:
    table.insert(pl.DataFrame(ROWS))
    frame = table.to_pandas(filter="city = 'sf'")
    frame["fare"] += 1
    frame["ts"] = 2
    table.upsert(frame)
    table.upsert(pl.from_arrow(table.to_arrow(filter="id = 3")).with_columns(ts=5))
    expected = [{**ROWS[0], "fare": 20.1, "ts": 2}, {**ROWS[1], "fare": 28.7, "ts": 2}]
    assert found(table) == [*expected, {**ROWS[2], "ts": 5}]
    rows = table.to_arrow().to_pylist()  # with meta columns, as they are read
    assert table.upsert(rows).stats.updated == 3


def test_lost_nanoseconds_are_refused_and_nothing_is_written(table: hoodoo.Table) -> None:
    stamp = pd.DataFrame(ROWS).assign(at=pd.to_datetime([1, 1001, 2000]))
    with pytest.raises(SchemaMismatch, match=r"column at: 1970-01-01 00:00:00.000000001 has nano"):
        table.insert(stamp.astype({"at": "datetime64[ns]"}))
    assert table.timeline() == []
    table.insert(stamp.assign(at=pd.to_datetime([1000, 2000, 3000])))
    assert table.schema.field("at").type == pa.timestamp("us")


def test_wrong_rows_are_refused_before_anything_is_written(table: hoodoo.Table) -> None:
    with pytest.raises(InputError, match="the table has no column 'tip'"):
        table.upsert([{**ROWS[0], "tip": 1}])
    with pytest.raises(InputError, match=r"rows must be .*pandas, polars.*, not set"):
        table.upsert({1, 2})
    with pytest.raises(InputError, match="no column 'id' in the rows"):
        table.upsert([{"city": "sf", "ts": 1}])
    assert table.timeline() == []


# -- out --------------------------------------------------------------------------------------


def test_meta_columns_are_shown_only_if_asked_for(table: hoodoo.Table) -> None:
    table.insert(ROWS)
    assert list(table.to_pandas().columns) == table.head().column_names == COLUMNS
    assert "_hoodie_record_key" in table.to_pandas(meta=True).columns
    assert "_hoodie_record_key" in table.head(meta=True).column_names
    assert table.head(columns=["_hoodie_record_key", "id"]).num_columns == 2


def test_a_read_as_of_an_older_schema_has_the_columns_of_then(table: hoodoo.Table) -> None:
    first = table.insert(ROWS).instant
    table.upsert(pd.DataFrame([{**ROWS[0], "ts": 2, "tip": 1.5}]))
    assert list(table.to_pandas().columns) == [*COLUMNS, "tip"]
    assert list(table.to_pandas(as_of=first).columns) == COLUMNS
    assert table.head(as_of=first).column_names == COLUMNS
    assert table.to_pandas(as_of="2020-01-01").empty


def test_head_gives_so_many_rows(table: hoodoo.Table) -> None:
    assert table.head().num_rows == 0
    table.insert(ROWS)
    table.upsert(ROWS[:1])
    assert [table.head(n).num_rows for n in (0, 1, 2, 3, 9)] == [0, 1, 2, 3, 3]
    assert table.head(5, filter="id = 3").to_pylist() == ROWS[2:]
    with pytest.raises(InputError, match="-1"):
        table.head(-1)


def test_count_equals_the_rows_read(table: hoodoo.Table) -> None:
    assert table.count() == 0
    first = table.insert(ROWS)
    table.upsert([{**ROWS[0], "ts": 2}, {"id": 4, "city": "la", "fare": 1.0, "ts": 1}])
    table.delete([2])
    assert table.count() == table.to_arrow().num_rows == 3
    assert table.count(filter="fare < 18") == 2
    assert table.count(as_of=first.instant) == 3


def test_count_without_logs_reads_footers_only(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=FRAME, record_key="id")
    table.insert(ROWS)
    (base,) = (tmp_path / "t").glob("*.parquet")
    data = bytearray(base.read_bytes())
    data[4:200] = bytes(196)  # pages are gone, the footer is not
    base.write_bytes(data)
    assert table.count() == 3
    with pytest.raises(hoodoo.FormatError):
        table.to_arrow()


def test_batches_come_file_after_file(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=FRAME, record_key="id", partition_by="city")
    table.insert(ROWS)
    reader = table.to_batches(columns=["id", "city"], filter="id > 1")
    assert reader.schema.names == ["id", "city"]
    first = reader.read_next_batch()
    for base in (tmp_path / "t").glob("*/*.parquet"):
        base.unlink()
    assert first.num_rows == 1
    with pytest.raises(ObjectNotFound, match="cleaned while being read"):  # it was not in memory
        reader.read_next_batch()


def test_batches_are_all_rows(table: hoodoo.Table) -> None:
    table.insert(ROWS)
    table.upsert([{**ROWS[0], "fare": 1.0, "ts": 2}])
    assert table.to_batches().read_all().sort_by("id") == table.to_arrow().sort_by("id")
    assert pl.DataFrame(table.to_batches(columns=["id"])).height == 3


def test_history_tells_rows_and_what_writers_noted(table: hoodoo.Table) -> None:
    first = table.insert(ROWS)
    second = table.upsert([{**ROWS[0], "ts": 2}, {"id": 4, "city": "sf", "fare": 1.0, "ts": 1}])
    third = table.delete([2])
    told = table.history()
    assert [commit.instant for commit in told] == [third.instant, second.instant, first.instant]
    assert told[0].completion_time == third.completion_time
    assert [(c.operation, c.inserted, c.updated, c.deleted) for c in told] == [
        ("DELETE", 0, 0, 1),
        ("UPSERT", 1, 1, 0),
        ("INSERT", 3, 0, 0),
    ]
    assert "schema" not in told[0].metadata
    assert "process" in (told[0].owner or "")
    assert table.history(limit=1) == told[:1]


def test_a_table_service_changes_no_row_of_the_history(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=FRAME, record_key="id", table_type="mor")
    table.insert(ROWS)
    table.upsert(ROWS)
    steps: list[hoodoo.Progress] = []
    plan = table.schedule_compaction()
    table.run_compaction(plan, progress=steps.append)
    newest = table.history()[0]
    assert (newest.instant, newest.inserted, newest.updated) == (plan, 0, 0)
    assert steps[-1] == hoodoo.Progress("compaction", 1, 1)


def test_archived_commits_are_in_the_history_on_request(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=FRAME, record_key="id")
    for _ in range(4):
        table.upsert(ROWS)
    folder = tmp_path / "t/.hoodie/timeline"
    old = []
    for file in sorted(folder.glob("*.commit"))[:2]:
        requested, completed = file.stem.split("_")
        metadata = file.read_bytes()
        old.append(
            ArchivedInstant(
                requested_time=requested,
                completion_time=completed,
                action=Action.COMMIT,
                metadata=metadata,
            )
        )
        for each in folder.glob(f"{requested}*"):
            each.unlink()
    archive(tmp_path / "t", *old)
    active, whole = table.history(), table.history(include_archived=True)
    assert (len(active), len(whole)) == (2, 4)
    assert whole[: len(active)] == active
    assert {commit.is_archived for commit in whole[len(active) :]} == {True}
    times = [commit.completion_time for commit in whole]
    assert times == sorted(times, reverse=True)


def test_a_notebook_shows_the_table_and_escapes_it(tmp_path: Path) -> None:
    table = hoodoo.create_table(
        tmp_path / "<b>", schema=FRAME, record_key="id", partition_by="city", name="<i>"
    )
    table.insert(ROWS)
    shown = table._repr_html_()
    assert "<b>&lt;i&gt;</b>" in shown
    assert "3 rows" in shown
    assert "<td>fare</td><td>double</td>" in shown
    assert "<i>" not in shown.replace("<b>&lt;i&gt;", "")
    table_of_logs = hoodoo.create_table(
        tmp_path / "m", schema=FRAME, record_key="id", table_type="mor"
    )
    table_of_logs.insert(ROWS)
    table_of_logs.upsert(ROWS)
    assert " rows" not in table_of_logs._repr_html_()
    for file in (tmp_path / "m/.hoodie/timeline").glob("*.deltacommit"):
        file.write_bytes(b"damage")
    assert "Table(" in table_of_logs._repr_html_()


# -- making tables ----------------------------------------------------------------------------


def test_a_table_that_is_there_and_fits_is_opened(tmp_path: Path) -> None:
    def create() -> hoodoo.Table:
        return hoodoo.create_table(
            tmp_path / "t",
            schema=pl.DataFrame(ROWS),
            record_key="id",
            partition_by=["city"],
            ordering="ts",
            table_type="mor",
            exist_ok=True,
        )

    create().insert(ROWS)
    assert create().count() == 3


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        ({"record_key": "city"}, "its record key is id, not city"),
        ({"partition_by": "city"}, "its partition fields is none, not city"),
        ({"ordering": None}, "its ordering is ts, not none"),
        ({"table_type": "mor"}, "its type is COPY_ON_WRITE, not MERGE_ON_READ"),
    ],
)
def test_a_table_that_is_another_is_refused_with_the_difference(
    tmp_path: Path, given: dict[str, str], difference: str
) -> None:
    same = {"schema": FRAME.schema, "record_key": "id", "ordering": "ts"}
    hoodoo.create_table(tmp_path / "t", **same)
    with pytest.raises(TableExists, match=difference):
        hoodoo.create_table(tmp_path / "t", **{**same, **given}, exist_ok=True)
    with pytest.raises(TableExists):
        hoodoo.create_table(tmp_path / "t", **same)


NEITHER = """
import sys
class Absent:
    def find_spec(self, name, *rest):
        if name in ("pandas", "polars"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import hoodoo, pyarrow as pa
table = hoodoo.create_table(sys.argv[1], schema=pa.schema([("id", pa.int64())]), record_key="id")
table.upsert([{"id": 1}])
print(table.head().to_pylist(), table.count(), table.to_batches().read_all().num_rows)
"""


def test_nothing_but_to_pandas_needs_pandas_or_polars(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", NEITHER, str(tmp_path / "t")], capture_output=True, text=True
    )
    assert (ran.stdout, ran.returncode) == ("[{'id': 1}] 1 1\n", 0), ran.stderr


IMPORTED = """
import sys, hoodoo
print(sorted({"pyarrow", "numpy", "pandas", "polars", "obstore", "rich"} & set(sys.modules)))
hoodoo.WriteConflict, hoodoo.Progress
print([name for name in sys.modules if name in ("hoodoo.api", "pyarrow")])
"""


def test_the_package_and_its_errors_import_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert ran.stdout == "[]\n[]\n", ran.stderr
