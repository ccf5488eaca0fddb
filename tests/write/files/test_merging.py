"""Base files are merged piece by piece: rows, meta columns and counts are as if at once."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.format.parquet.base_file import open_parquet
from hoodoo.format.schema import META_FIELDS
from hoodoo.read.snapshot import take_snapshot
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.ref import open_ref
from hoodoo.write.files import merge_base_file

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
SMALL = {"hoodie.parquet.block.size": 4096, "hoodie.parquet.small.file.limit": 10**9}
Rows = dict[str, tuple[int, str, bool]]
_names = count()


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_base_file, "_KEYS_AT_ONCE", 700)
    monkeypatch.setattr(merge_base_file, "_BYTES_AT_ONCE", 20_000)


def make(kind: str, ordering: str | None) -> hoodoo.Table:
    uri = MemoryStorage(f"merging-{next(_names)}").uri
    hoodoo.create_table(
        uri,
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        ordering=ordering,
        table_type=kind,
    )
    return hoodoo.open_table(uri, SMALL)


def table(rows: Rows) -> pa.Table:
    columns = [
        list(rows),
        ["x"] * len(rows),
        [ts for ts, _, _ in rows.values()],
        [v for _, v, _ in rows.values()],
        [[v, key] for key, (_, v, _) in rows.items()],
        [gone for _, _, gone in rows.values()],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def read_rows(read: hoodoo.Table) -> Rows:
    rows = read.to_arrow(columns=["id", "ts", "v", "tags"]).to_pylist()
    assert all(row["tags"] == [row["v"], row["id"]] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["ts"], row["v"], False) for row in rows}


def apply_to_model(model: Rows, change: Rows, *, by_time: bool) -> Rows:
    """What a table of these rows holds after an upsert of those."""
    result = dict(model)
    for key, (ts, v, gone) in change.items():
        if by_time and key in result and result[key][0] > ts:
            continue
        if gone:
            result.pop(key, None)
        else:
            result[key] = (ts, v, False)
    return result


@pytest.mark.parametrize("ordering", [None, "ts"])
@pytest.mark.parametrize("seed", range(3))
def test_an_upsert_of_a_file_with_many_row_groups(seed: int, ordering: str | None) -> None:
    random = Random(seed)
    read = make("cow", ordering)
    model: Rows = {f"k{n:05d}": (random.randrange(100), f"a{n}", False) for n in range(3_000)}
    read.bulk_insert(table(model))
    for turn in "bcd":
        keys = random.sample(sorted(model), 300) + [f"{turn}{n}" for n in range(40)]
        change: Rows = {
            key: (random.randrange(100), f"{turn}{n}", random.random() < 0.2)
            for n, key in enumerate(keys)
        }
        before, expected = dict(model), apply_to_model(model, change, by_time=ordering is not None)
        done = read.upsert(table(change))
        model = expected
        assert read_rows(read) == model
        assert done.stats.inserted == len(set(model) - set(before))
        assert done.stats.deleted == len(set(before) - set(model))
        assert done.stats.updated == sum(
            1 for key in set(model) & set(before) & set(change) if model[key][1] == change[key][1]
        )
    (base,) = (slice_.base for slice_ in take_snapshot(open_ref(read.uri)).slices())
    assert base is not None
    source = open_ref(read.uri).env.storage.open_read(base.path)
    assert pq.ParquetFile(source).num_row_groups > 10


def test_rows_that_stay_keep_what_they_were_written_with() -> None:
    read = make("cow", None)
    read.bulk_insert(table({f"k{n}": (n, f"a{n}", False) for n in range(2_000)}))
    old = {row["id"]: row for row in read.to_arrow().to_pylist()}
    done = read.upsert(
        table({"k7": (0, "b", False), "k1999": (0, "b", True), "n": (0, "b", False)})
    )
    new = {row["id"]: row for row in read.to_arrow().to_pylist()}
    assert set(new) == set(old) - {"k1999"} | {"n"}
    (name,) = {row["_hoodie_file_name"] for row in new.values()}
    assert done.instant in name
    assert {row["_hoodie_partition_path"] for row in new.values()} == {"p=x"}
    for key in set(old) & set(new) - {"k7"}:
        assert {**old[key], "_hoodie_file_name": name} == new[key]
    for key in ("k7", "n"):
        assert new[key]["_hoodie_commit_time"] == done.instant
        assert new[key]["_hoodie_record_key"] == key
    assert len({row["_hoodie_commit_seqno"] for row in new.values()}) == len(new)


def test_new_rows_fill_a_small_file() -> None:
    read = make("cow", None)
    read.insert(table({f"k{n}": (n, "a", False) for n in range(2_000)}))
    done = read.insert(table({f"n{n}": (n, "b", False) for n in range(500)}))
    assert done.stats.files == 1
    assert done.stats.inserted == 500
    assert len(read_rows(read)) == 2_500
    assert len(take_snapshot(open_ref(read.uri)).slices()) == 1


def test_a_slice_with_logs_is_merged_into_a_new_base_file() -> None:
    read = make("mor", "ts")
    model: Rows = {f"k{n:04d}": (50, f"a{n}", False) for n in range(2_500)}
    read.bulk_insert(table(model))
    changes: list[Rows] = [
        {f"k{n:04d}": (60, "b", n % 3 == 0) for n in range(0, 2_500, 5)},
        {f"k{n:04d}": (70, "back", False) for n in range(0, 2_500, 7)},  # some were deleted
    ]
    for change in changes:
        read.upsert(table(change))
        model = apply_to_model(model, change, by_time=True)
    (slice_,) = take_snapshot(open_ref(read.uri)).slices()
    assert not slice_.logs, "what brings deleted keys back is no log"
    assert read_rows(read) == model


def test_columns_that_came_later_are_null_in_old_rows() -> None:
    read = make("cow", None)
    read.bulk_insert(table({f"k{n}": (n, "a", False) for n in range(2_000)}))
    wider = table({"k5": (5, "b", False)}).append_column("extra", pa.array([1], pa.int64()))
    read.upsert(wider)
    rows = read.to_arrow(columns=["id", "extra"]).to_pylist()
    assert {row["id"] for row in rows if row["extra"] is not None} == {"k5"}
    assert len(rows) == 2_000
    names = read.to_arrow().column_names
    assert names[:5] == list(META_FIELDS)


def chunk_bytes(read: hoodoo.Table, group: int) -> dict[str, bytes]:
    """The bytes of each column of a row group, in the one base file of a table."""
    ref = open_ref(read.uri)
    (slice_,) = take_snapshot(ref).slices()
    assert slice_.base is not None
    _, chunks = open_parquet(ref.env.storage.open_read(slice_.base.path)).chunks.row_groups[group]
    return {chunk.name: b"".join(chunk.read()) for chunk in chunks}


def test_updates_leave_the_bytes_of_columns_that_they_do_not_change() -> None:
    read = make("cow", None)
    rows: Rows = {f"k{n:04d}": (n, f"a{n}", False) for n in range(2_000)}
    read.bulk_insert(table(rows))
    before, last = chunk_bytes(read, 0), chunk_bytes(read, 1)
    read.upsert(table({"k0003": (3, "b", False), "k0004": (4, "b", False)}))
    after = chunk_bytes(read, 0)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {*META_FIELDS} - {"_hoodie_record_key", "_hoodie_partition_path"} | {
        "v",
        "tags",
    }
    untouched = chunk_bytes(read, 1)
    assert {name for name in last if last[name] != untouched[name]} == {"_hoodie_file_name"}
    assert [row["id"] for row in read.to_arrow().to_pylist()] == list(rows), "rows stay in place"


def test_a_key_that_a_file_has_repeatedly_is_one_row_after_an_update() -> None:
    read = make("cow", None)
    read.insert(table({f"k{n:04d}": (n, f"a{n}", False) for n in range(2_000)}))
    read.insert(table({"k0000": (0, "again", False), "k1999": (0, "again", False)}))
    read.upsert(table({"k0000": (1, "b", False), "k1999": (1, "b", False)}))
    rows = read_rows(read)
    assert len(rows) == 2_000
    assert rows["k0000"] == rows["k1999"] == (1, "b", False)


def test_row_groups_do_not_pile_up() -> None:
    read = make("cow", None)
    for turn in range(12):
        read.upsert(table({f"k{turn}-{n}": (n, "a", False) for n in range(3)}))
    ref = open_ref(read.uri)
    (slice_,) = take_snapshot(ref).slices()
    assert slice_.base is not None
    groups = pq.ParquetFile(ref.env.storage.open_read(slice_.base.path)).num_row_groups
    assert groups <= 3
    assert len(read_rows(read)) == 36


def test_another_reader_finds_the_rows_of_a_file_that_was_copied(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    hoodoo.create_table(place, schema=SCHEMA, record_key="id", partition_by="p")
    read = hoodoo.open_table(place, SMALL)
    read.bulk_insert(table({f"k{n:04d}": (n, f"a{n}", False) for n in range(2_000)}))
    for turn in "bc":
        read.upsert(table({f"k{n:04d}": (n, f"{turn}{n}", False) for n in range(0, 2_000, 97)}))
    assert wheel_rows(place) == rows_of(read.to_arrow())
