"""Delete, update and merge by predicate, in this process: rows, commits, files read, conflicts."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.change_model import ChangedTable, make
from support.indexed import BUCKETS, FILTERS, GLOBAL, RECORD, STAYS
from support.record_indexed import check_index
from support.wheel import wheel_rows
from support.writer_machines import Fleet, Machine, rows

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import HoodooError, InputError, WriteConflict
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
INDEXES = {
    "simple": {},
    "bloom": FILTERS,
    "bucket": BUCKETS,
    "global": GLOBAL,
    "record": RECORD,
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_histories_of_changes_leave_what_a_dict_holds(
    tmp_path: Path, kind: str, index: str
) -> None:
    table = make(tmp_path, kind, dict(INDEXES[index]), ordered=index != "bloom")
    changed = ChangedTable(table, seed=len(index))
    changed.fill(40)
    changed.run(12)
    assert sorted(row["id"] for row in wheel_rows(table.uri)) == sorted(changed.rows)
    if index == "record":
        check_index(table)


# -- small tables with one thing to see ----------------------------------------------------------

TRIPS = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())]
)


def trips(path: Path, kind: str = "cow", **more: Any) -> hoodoo.Table:
    table = hoodoo.create_table(
        path / "trips",
        schema=TRIPS,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        **more,
    )
    cities = ["oslo", "oslo", "rome", "rome"]
    table.insert(pa.table([[1, 2, 3, 4], cities, [1.0, 2.0, 3.0, 4.0], [10] * 4], schema=TRIPS))
    return table


def fares(table: hoodoo.Table) -> dict[int, tuple[str, float]]:
    stored = table.to_arrow(columns=["id", "city", "fare"]).to_pylist()
    return {row["id"]: (row["city"], row["fare"]) for row in stored}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_change_wins_over_the_stored_row_of_the_same_ordering_value(
    tmp_path: Path, kind: str
) -> None:
    table = trips(tmp_path, kind)
    table.upsert(pa.table([[1], ["oslo"], [9.0], [99]], schema=TRIPS))
    table.update({"fare": "fare + 1"}, where="id <= 2")
    table.delete(where="id = 2")
    assert fares(table) == {1: ("oslo", 10.0), 3: ("rome", 3.0), 4: ("rome", 4.0)}
    table.delete(where="id = 1")
    table.upsert(pa.table([[2], ["oslo"], [7.0], [1]], schema=TRIPS))
    assert fares(table)[2] == ("oslo", 7.0), "what comes after a delete wins over it"


def test_an_update_that_makes_a_row_older_is_refused(tmp_path: Path) -> None:
    table = trips(tmp_path)
    with pytest.raises(InputError, match="ordering column ts"):
        table.update({"ts": 5}, where="id = 1")
    assert table.update({"ts": 15, "fare": 5}, where="id = 1") is not None
    assert fares(table)[1] == ("oslo", 5.0)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_row_whose_partition_changes_moves_in_one_commit(tmp_path: Path, kind: str) -> None:
    table = trips(tmp_path, kind)
    done = table.update({"city": "'bergen'"}, where="id = 2")
    assert done is not None
    assert (done.stats.inserted, done.stats.updated, done.stats.deleted) == (0, 1, 0)
    assert fares(table)[2] == ("bergen", 2.0)
    (path,) = table.to_arrow(columns=["_hoodie_partition_path"], filter="id = 2").to_pylist()
    assert "bergen" in path["_hoodie_partition_path"]
    assert len(table.timeline()) == 2


def test_a_row_does_not_move_onto_another_of_its_key(tmp_path: Path) -> None:
    table = trips(tmp_path)
    table.insert(pa.table([[1], ["rome"], [5.0], [10]], schema=TRIPS))
    with pytest.raises(InputError, match="in the table already"):
        table.update({"city": "'rome'"}, where="city = 'oslo'")
    with pytest.raises(InputError, match="same record key"):
        table.update({"city": "'paris'"}, where="id = 1")
    assert len(table.timeline()) == 2


def test_rows_move_where_the_index_keeps_those_of_upserts(tmp_path: Path) -> None:
    table = trips(tmp_path, options=dict(STAYS))
    assert table.update({"city": "'rome'"}, where="id = 1") is not None
    assert fares(table)[1] == ("rome", 1.0)
    table.upsert(pa.table([[1], ["oslo"], [9.0], [11]], schema=TRIPS))
    assert table.to_arrow(filter="id = 1").num_rows == 1


def test_nothing_is_committed_when_nothing_matches(tmp_path: Path) -> None:
    table = trips(tmp_path)
    assert table.delete(where="fare > 100") is None
    assert table.update({"fare": 1}, where="city = 'paris'") is None
    none = pa.table([[9], ["oslo"], [1.0], [1]], schema=TRIPS)
    assert table.merge(none, on="id", when_matched_update=True) is None
    assert len(table.timeline()) == 1


def test_values_are_cast_to_the_types_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("n", pa.int32()),
            ("f", pa.float32()),
            ("d", pa.date32()),
            ("t", pa.timestamp("us", tz="UTC")),
            ("m", pa.decimal128(10, 2)),
            ("l", pa.list_(pa.int64())),
        ]
    )
    table = hoodoo.create_table(tmp_path / "t", schema=schema, record_key="k")
    table.insert(
        pa.table([["a"], [1], [1.5], [None], [None], [Decimal("1.10")], [[1]]], schema=schema)
    )
    table.update({"n": "n * 3", "f": "n / 2", "d": "'2024-05-06'", "t": "'2024-05-06 07:08:09'"})
    table.update({"m": "m * 2", "l": [4, 5], "f": pc.field("f") + 1})
    (row,) = table.to_arrow(columns=schema.names).to_pylist()
    assert row["d"] == date(2024, 5, 6)
    assert row["t"].replace(tzinfo=None) == datetime(2024, 5, 6, 7, 8, 9)
    assert (row["n"], row["f"], row["m"], row["l"]) == (3, 1.5, Decimal("2.20"), [4, 5])
    assert table.schema == schema
    for bad in ({"n": "2147483647 + 1"}, {"n": "'x'"}, {"n": 1.5}, {"n": "1.5"}, {"d": True}):
        with pytest.raises(InputError, match=r"column [nd] |overflow"):
            table.update(bad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.delete(), "exactly one"),
        (lambda t: t.delete([1], where="id = 1"), "exactly one"),
        (lambda t: t.delete(where="sqrt(fare) > 1"), "no function 'sqrt'"),
        (lambda t: t.delete(where="fare + 1"), "true or false"),
        (lambda t: t.delete(where="price > 1"), "unknown column 'price'"),
        (lambda t: t.update({}), "set="),
        (lambda t: t.update({"price": 1}), "no column 'price'"),
        (lambda t: t.update({"id": "id + 1"}), "cannot change the record key"),
        (lambda t: t.update({"_hoodie_commit_time": "'1'"}), "no column"),
        (lambda t: t.update({"fare": "city * 2"}), "cannot be computed"),
        (lambda t: t.update({"ts": "null"}), "ordering column ts is null"),
        (lambda t: t.merge(t.to_arrow(), on="id"), "nothing to do"),
        (lambda t: t.merge(t.to_arrow(), on="x", when_matched_update=True), "table has only"),
        (lambda t: t.merge(t.to_arrow(), on="id", when_matched_update=1), "True, a condition"),
        (
            lambda t: t.merge(t.to_arrow(), on="id", when_matched_update={"fare": "fare"}),
            "source.f",
        ),
        (lambda t: t.merge(t.to_arrow(), on="city", when_matched_update=True), "several rows"),
    ],
)
def test_bad_input_is_one_clear_message_and_changes_nothing(
    tmp_path: Path, call: Any, message: str
) -> None:
    table = trips(tmp_path)
    with pytest.raises(InputError, match=message):
        call(table)
    assert len(table.timeline()) == 1


# -- merge ----------------------------------------------------------------------------------------


def changes(*given: tuple[int | None, str, float, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(TRIPS.names, row, strict=True)) for row in given])


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_merge_updates_all_columns_and_adds_rows(tmp_path: Path, kind: str) -> None:
    table = trips(tmp_path, kind)
    source = changes((1, "oslo", 11.0, 11), (3, "paris", 33.0, 11), (5, "oslo", 55.0, 11))
    done = table.merge(source, on="id", when_matched_update=True, when_not_matched_insert=True)
    assert done is not None
    assert (done.stats.inserted, done.stats.updated, done.stats.deleted) == (1, 2, 0)
    assert fares(table) == {
        1: ("oslo", 11.0),
        2: ("oslo", 2.0),
        3: ("paris", 33.0),
        4: ("rome", 4.0),
        5: ("oslo", 55.0),
    }
    assert len(table.timeline()) == 2


def test_a_source_with_two_rows_for_one_row_is_refused_unless_neither_changes_it(
    tmp_path: Path,
) -> None:
    table = trips(tmp_path)
    twice = changes((1, "oslo", 5.0, 11), (1, "oslo", 6.0, 11))
    with pytest.raises(InputError, match="several rows of the source"):
        table.merge(twice, on="id", when_matched_update=True)
    assert table.merge(twice, on="id", when_matched_update="source.fare > 5") is not None
    assert fares(table)[1] == ("oslo", 6.0)
    new = changes((8, "oslo", 5.0, 11), (8, "oslo", 6.0, 11))
    with pytest.raises(InputError, match="same record key"):
        table.merge(new, on="id", when_not_matched_insert=True)


def test_null_matches_nothing(tmp_path: Path) -> None:
    table = hoodoo.create_table(
        tmp_path / "t",
        schema=pa.schema([("k", pa.string()), ("a", pa.int64()), ("b", pa.string())]),
        record_key="k",
    )
    table.insert(pa.table({"k": ["1", "2"], "a": [None, 7], "b": ["x", "x"]}))
    source = pa.table({"k": ["8", "9"], "a": [None, 7], "b": ["x", "x"]})
    values = {"k": "source.k", "a": "source.a", "b": "'new'"}
    done = table.merge(
        source, on=["a", "b"], when_matched_delete=True, when_not_matched_insert=values
    )
    assert done is not None
    assert sorted(r["k"] for r in table.to_arrow(columns=["k"]).to_pylist()) == ["1", "8"]


def test_a_merge_on_other_columns_does_not_take_keys_that_are_there(tmp_path: Path) -> None:
    table = trips(tmp_path)
    source = changes((1, "oslo", 77.0, 11))
    with pytest.raises(InputError, match=r"in the table already: '.*oslo/1'"):
        table.merge(source, on="fare", when_not_matched_insert=True)
    with pytest.raises(InputError, match="cannot change the record key"):
        table.merge(changes((9, "oslo", 1.0, 11)), on="fare", when_matched_update=True)
    assert table.merge(changes((1, "x", 1.0, 11)), on="fare", when_matched_delete=True) is not None


# -- files and conflicts --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_that_cannot_match_are_not_read(tmp_path: Path, kind: str) -> None:
    made = hoodoo.create_table(
        tmp_path / "t",
        schema=pa.schema([("id", pa.int64()), ("v", pa.int64())]),
        record_key="id",
        table_type=kind,
        options={"hoodie.metadata.index.column.stats.enable": "true"},
    )
    for begin in range(0, 50, 10):
        ids = list(range(begin, begin + 10))
        made.bulk_insert(pa.table({"id": ids, "v": ids}))
    storage = TracedStorage(Env.of(made.uri).storage)
    table = Table(open_ref(made.uri, None, Env(storage)))

    def groups_read(call: Any) -> set[str]:
        storage.clear()
        assert call() is not None
        read = [o.path for o in storage.operations if o.verb.startswith(("open_read", "read"))]
        return {path.lstrip(".").split("_")[0] for path in read if not path.startswith(".hoodie")}

    below = {"v": "v - 100"}
    assert len(groups_read(lambda: table.update(below, where="v between 12 and 14"))) == 1
    assert len(groups_read(lambda: table.delete(where="v = 33"))) == 1
    source = pa.table({"id": [21, 25], "v": [0, 0]})
    assert len(groups_read(lambda: table.merge(source, on="id", when_matched_update=True))) == 1
    assert table.to_arrow().num_rows == 49


def overtake(north: Machine, south: Machine, change: Any) -> None:
    """South changes rows once, when north is about to write its file."""
    left = [change]

    def before(verb: str, path: str) -> None:
        if left and verb == "create" and ".marker." in path:
            left.pop()(south.table)

    north.storage.before(before)


@pytest.mark.parametrize("retries", [0, 1])
def test_of_two_changes_of_the_same_rows_the_later_one_fails_or_reads_again(retries: int) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north", **{RETRIES: retries}), fleet.machine("south")
    south.table.insert(rows(k1=1, k2=2))
    names = south.table.schema.names
    key, value = names[0], next(n for n in names if south.rows() and n in ("v", "value", "val"))
    overtake(north, south, lambda t: t.update({value: f"{value} + 10"}, where=f"{key} = 'k1'"))
    if retries:
        north.table.update({value: f"{value} * 2"}, where=f"{value} > 0")
        assert south.rows() == {"k1": 22, "k2": 4}, "computed of what the other one wrote"
    else:
        with pytest.raises(WriteConflict):
            north.table.update({value: f"{value} * 2"}, where=f"{value} > 0")
        assert south.rows() == {"k1": 11, "k2": 2}
    assert not south.ref.load_timeline().pending


def test_a_change_between_the_read_and_the_plan_is_a_conflict(tmp_path: Path) -> None:
    """The plan stands on the snapshot that was read, not on a later one."""
    made = trips(tmp_path)
    left = [1]

    def before(verb: str, path: str) -> None:
        if left and path.endswith(".parquet") and not path.startswith(".hoodie"):
            left.pop()
            made.update({"fare": 50}, where="id = 1")

    storage = TracedStorage(Env.of(made.uri).storage, before=before)
    table = Table(open_ref(made.uri, {RETRIES: 0}, Env(storage)))
    with pytest.raises((WriteConflict, HoodooError), match=r"conflict|changed"):
        table.update({"fare": "fare + 1"}, where="id = 2")
    assert fares(made)[1] == ("oslo", 50.0)
    assert fares(made)[2] == ("oslo", 2.0)


def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "changing-rows.md"
    (example,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, page.name, "exec"), {})
    left = hoodoo.open_table("trips").to_arrow(columns=["trip_id", "city", "fare"]).to_pylist()
    assert sorted(tuple(row.values()) for row in left) == [
        *(("t1", "oslo", 40.0), ("t4", "rome", 12.5), ("t5", "rome", 7.0)),
    ]
