"""The record index: where keys are, against a read of all files and against the global index."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.indexed import KINDS, SCHEMA, Row, arrow, create, rows_in
from support.record_indexed import (
    LAST,
    LATER,
    RECORD_INDEXED,
    add_record_index,
    locate_keys,
    locate_rows,
    locations,
    make_indexed,
    scan,
    sent,
    target_of,
)

import hoodoo
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.write.index import index_of
from hoodoo.write.index.record import RecordIndex
from hoodoo.write.index.simple import GlobalSimpleIndex
from hoodoo.write.planning.assignment import WriteTarget

Unpack = Callable[[str], Path]
INDEX = {"hoodie.index.type": "RECORD_INDEX"}
ELSEWHERE = ("p=x", "11111111-2222-4333-8444-555555555555-0")
AFTER = InstantTime("21000101000000000")
MOVES = "hoodie.record.index.update.partition.path"
STEPS = [
    ("insert", [("a", "x", 1, 1), ("b", "x", 5, 1), ("c", "y", 1, 1), ("d", "y", 5, 1)]),
    ("insert", [("e", "x", 3, 1), ("f", "z", 3, 1)]),
    ("upsert", [("a", "x", 2, 2), ("f", "z", 4, 2)]),
    ("delete", [("e", "", 0, 0)]),
]


def own_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What hoodoo has logged: libraries of other tests in this process log, too."""
    return [r.getMessage() for r in caplog.records if r.name.startswith("hoodoo")]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "hoodoo.write.index")
    return caplog


# -- tables that Apache Hudi wrote ---------------------------------------------------------------


@pytest.mark.parametrize("table", RECORD_INDEXED)
def test_every_key_is_where_a_read_of_all_files_finds_it(
    table: str, unpack: Unpack, warnings: pytest.LogCaptureFixture
) -> None:
    path = unpack(table)
    located = scan(open_ref(str(path)))
    storage = TracedStorage(Env.of(str(path)).storage)
    target = target_of(path, RecordIndex(), Env(storage))
    keys = [*located, "absent", "TXN-9999", ""]
    storage.clear()
    destinations = locate_keys(target, keys, ["region=none"] * len(keys))
    found = {keys[n]: place for place, rows in destinations.items() for n in rows}
    new = dict.fromkeys(["absent", "TXN-9999", ""], ("region=none", ""))
    assert found == {**located, **new}
    assert not [o.path for o in storage.operations if o.path.endswith(".parquet")]
    assert not own_messages(warnings)


@pytest.mark.parametrize("table", RECORD_INDEXED)
@pytest.mark.parametrize("moves", [True, False])
def test_fixture_rows_go_where_the_global_index_sends_them(
    table: str, moves: bool, unpack: Unpack
) -> None:
    path = unpack(table)
    located = scan(open_ref(str(path)))
    keys = [*located, "absent"]
    places = sorted({place for place, _ in located.values()})
    partitions = [places[n % len(places)] for n in range(len(keys))]
    by_record, by_files = (
        locate_keys(target_of(path, index), keys, partitions)
        for index in (RecordIndex(moves=moves), GlobalSimpleIndex(moves=moves))
    )
    assert by_record == by_files
    assert (len(places) > 1 and moves) is any(name.startswith("-") for _, name in by_record)


# -- tables of ours ------------------------------------------------------------------------------

IDS = st.sampled_from("abcdfgh")  # not "e", which was deleted
ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(IDS, st.sampled_from("xyz"), st.integers(0, 6), st.just(7)), min_size=1, max_size=8
)


@pytest.fixture(scope="module")
def tables() -> Iterator[dict[tuple[str, str | None], str]]:
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for kind in ("cow", "mor"):
            for ordering in ("ts", None):
                table = make_indexed(f"{folder}/{kind}-{ordering}", kind, ordering, STEPS)
                made[kind, ordering] = table.uri
        yield made


@KINDS
@pytest.mark.parametrize("ordering", ["ts", None])
@settings(max_examples=8, phases=[Phase.generate])
@given(rows=ROWS, moves=st.booleans(), deletes=st.booleans())
def test_batches_go_where_the_global_index_sends_them(
    tables, kind: str, ordering: str | None, rows: list[Row], moves: bool, deletes: bool
) -> None:
    by_event_time = ordering is not None
    sent_by = [
        sent(
            locate_rows(
                target_of(tables[kind, ordering], index), rows, LocalEngine(2), deletes=deletes
            )[1]
        )
        for index in (
            RecordIndex(moves=moves, by_event_time=by_event_time),
            GlobalSimpleIndex(moves=moves, by_event_time=by_event_time),
        )
    ]
    assert sent_by[0] == sent_by[1]


@KINDS
def test_deleted_key_is_new(tables, kind: str) -> None:
    """Of a merge-on-read table the global index finds it still, in the base file."""
    target = target_of(tables[kind, "ts"], RecordIndex())
    assert locate_keys(target, ["e"], ["p=x"]) == {("p=x", ""): [0]}


def test_the_settings_choose_the_index(tables) -> None:
    uri = tables["cow", "ts"]
    index = index_of(open_ref(uri, INDEX))
    assert index == RecordIndex(moves=False, by_event_time=True)
    assert index.is_global
    moving = index_of(open_ref(uri, {**INDEX, MOVES: "true"}))
    assert moving == RecordIndex(moves=True, by_event_time=True)


# -- what counts ---------------------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    table = create(tmp_path / "t", "cow", {}, "ts")
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    return tmp_path / "t"


def test_location_in_a_file_group_that_is_gone_is_none(indexed: Path) -> None:
    ref = open_ref(str(indexed))
    located = scan(ref)
    add_record_index(ref, {**located, "a": ELSEWHERE})
    target = target_of(indexed, RecordIndex())
    places = {("p=x", ""): [0], located["b"]: [1]}
    assert locate_keys(target, ["a", "b"], ["p=x"] * 2) == places


@pytest.mark.parametrize("is_compacted", [False, True])
def test_keys_that_moved_after_the_snapshot_are_where_the_snapshot_has_them(
    indexed: Path, is_compacted: bool
) -> None:
    ref = open_ref(str(indexed))
    located = scan(ref)
    made = add_record_index(ref)
    target = target_of(indexed, RecordIndex())
    made.commit(
        LATER, {RECORD_INDEX: EntryBatch(locations({"a": ELSEWHERE}))}, completion_time=LAST
    )
    if is_compacted:
        entries = locations({**located, "a": ELSEWHERE})
        made.compact(RECORD_INDEX, entries, time=AFTER, completion_time=AFTER)
    assert locate_keys(target, ["a", "b"], ["p=x"] * 2) == {located["a"]: [0, 1]}


def test_entries_of_instants_that_are_not_completed_do_not_count(indexed: Path) -> None:
    ref = open_ref(str(indexed))
    (group,) = set(scan(ref).values())
    made = add_record_index(ref)
    made.commit(
        LATER,
        {RECORD_INDEX: EntryBatch(locations({"new": group}), pa.array(["a"]))},
        completion_time=None,
    )
    target = target_of(indexed, RecordIndex())
    keys = ["a", "b", "new"]
    assert locate_keys(target, keys, ["p=x"] * 3) == {group: [0, 1], ("p=x", ""): [2]}


def test_few_keys_take_a_small_part_of_the_index(tmp_path: Path) -> None:
    chance = Random(1)
    ids = [f"{chance.getrandbits(128):032x}" for _ in range(150_000)]
    table = create(tmp_path / "t", "cow", {}, None)
    columns = [pa.array(ids), pa.repeat("x", len(ids)), *[pa.array(range(len(ids)))] * 2]
    table.insert(pa.table(columns, SCHEMA))
    add_record_index(open_ref(table.uri), groups=2)
    storage = TracedStorage(Env.of(table.uri).storage)
    target = target_of(table.uri, RecordIndex(), Env(storage))
    storage.clear()
    keys = [ids[12_345], ids[54_321], "other"]
    destinations = locate_keys(target, keys, ["p=x"] * 3)
    assert sorted(len(rows) for rows in destinations.values()) == [1, 2]
    read = sum(o.size_bytes for o in storage.operations if o.path.endswith(".hfile"))
    files = (tmp_path / "t/.hoodie/metadata/record_index").glob("*.hfile")
    assert 0 < read < sum(file.stat().st_size for file in files) / 4


# -- without a usable record index ---------------------------------------------------------------


def test_without_a_record_index_files_are_searched(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    table = create(tmp_path / "t", "cow", {**INDEX, MOVES: "true"}, "ts")
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    assert not own_messages(warnings)  # no key was looked for
    table.upsert(arrow([("a", "y", 2, 2)]))
    assert rows_in(table.to_arrow()) == [("a", "y", 2, 2), ("b", "x", 1, 1)]
    assert "no complete record index" in own_messages(warnings)[0]
    staying = hoodoo.open_table(table.uri, INDEX)
    staying.upsert(arrow([("b", "y", 3, 3)]))
    assert {p for p, _ in scan(open_ref(table.uri)).values()} == {"p=x", "p=y"}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [("lost file group", "missing"), ("no metadata table", "not found"), ("off", "=false")],
)
def test_damaged_or_unwanted_record_index_is_not_used(
    tables, tmp_path: Path, warnings: pytest.LogCaptureFixture, damage: str, reason: str
) -> None:
    source = tables["cow", "ts"].removeprefix("file://")
    path = Path(shutil.copytree(source, tmp_path / "t"))
    metadata = path / ".hoodie/metadata"
    options = {}
    if damage == "off":
        options = {"hoodie.metadata.enable": "false"}
    elif damage == "no metadata table":
        shutil.rmtree(metadata)
    else:
        for file in (metadata / "record_index").glob("*record-index-0001-0*"):
            file.unlink()
    ref = open_ref(str(path), {**INDEX, **options})
    target = WriteTarget.load(ref)
    located = scan(ref)
    destinations = locate_keys(target, list(located), ["p=x"] * len(located))
    assert {list(located)[n]: g for g, rows in destinations.items() for n in rows} == located
    told = [text for text in warnings.messages if text.startswith("record_index_not_used")]
    assert [reason in text for text in told] == [True]
