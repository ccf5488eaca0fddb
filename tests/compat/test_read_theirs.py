"""Tables that Apache Hudi writes here and now are read by us to the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from compat.peer_client import READ_OPTIMIZED, Peer
from compat.peer_rows import trips
from compat.peer_tables import MOR, RECIPES, Maker
from compat.same_rows import assert_same_rows

import hoodoo
from hoodoo.errors import UnsupportedFeature

Made = Callable[[str], Path]
WRITES = {"commit", "deltacommit", "replacecommit"}


def completed(table: hoodoo.Table) -> list[tuple[str, str]]:
    """Requested and completion time of each write that completed, oldest first."""
    return [
        (one.requested_time, one.completion_time)
        for one in table.timeline()
        if one.completion_time and one.action in WRITES
    ]


@pytest.fixture(scope="session")
def made(hudi: Peer, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes a table by the name of its recipe, once per session; treat it as read-only."""
    root = tmp_path_factory.mktemp("theirs")

    def make(name: str) -> Path:
        path = root / name
        if not path.exists():
            build, options = RECIPES[name]
            build(Maker(hudi, path, options))
        return path

    return make


@pytest.mark.parametrize("name", RECIPES)
def test_snapshot(hudi: Peer, made: Made, name: str) -> None:
    path = made(name)
    theirs = hudi.read(path)
    assert theirs.num_rows
    ours = hoodoo.open_table(str(path)).to_arrow()
    if name == "timed_millis":
        # Hudi gives the column of this key generator as text, whatever its type is.
        at = ours.column_names.index("at")
        ours = ours.set_column(at, "at", ours["at"].cast(pa.string()))
    assert_same_rows(ours, theirs)


@pytest.mark.parametrize(
    "name", ["life_mor_avro", "overwritten_whole_mor", "compaction_pending_mor"]
)
def test_read_optimized(hudi: Peer, made: Made, name: str) -> None:
    path = made(name)
    theirs = hudi.read(path, READ_OPTIMIZED)
    assert_same_rows(hoodoo.open_table(str(path)).to_arrow(mode="read_optimized"), theirs)


@pytest.mark.parametrize(
    "name", ["life_cow", "life_mor_compacted", "overwritten_cow", "evolved_mor"]
)
def test_as_of_each_commit(hudi: Peer, made: Made, name: str) -> None:
    path = made(name)
    table = hoodoo.open_table(str(path))
    writes = completed(table)
    assert len(writes) >= 3
    for instant, _ in writes:
        assert_same_rows(table.to_arrow(as_of=instant), hudi.as_of(path, instant))


@pytest.mark.parametrize("name", ["life_cow", "life_mor_commit_time", "life_mor_compacted"])
def test_changes_since_each_commit(hudi: Peer, made: Made, name: str) -> None:
    path = made(name)
    table = hoodoo.open_table(str(path))
    times = [time for _, time in completed(table)]
    assert len(times) >= 3
    for since in ["19700101000000000", *times]:
        assert_same_rows(table.changes(since=since), hudi.changes(path, since))


@pytest.mark.parametrize("name", ["life_cow", "life_mor_commit_time"])
def test_changes_between_two_commits(hudi: Peer, made: Made, name: str) -> None:
    path = made(name)
    table = hoodoo.open_table(str(path))
    (_, first), (_, second), _ = completed(table)
    theirs = hudi.changes(path, first, second)
    assert theirs.num_rows >= 3
    assert_same_rows(table.changes(since=first, until=second), theirs)


# Where we differ, knowingly.


def test_update_that_lost_is_a_change_to_hudi_on_mor(hudi: Peer, made: Made) -> None:
    """Hudi merges the log files of the window alone; we compare with the base row too."""
    path = made("life_mor_avro")
    table = hoodoo.open_table(str(path))
    (_, first), *_ = completed(table)
    assert sorted(hudi.changes(path, first)["id"].to_pylist()) == ["a", "c", "f", "g"]
    assert sorted(table.changes(since=first)["id"].to_pylist()) == ["a", "f", "g"]


def test_empty_partition_value_is_null_to_hudi(hudi: Peer, tmp_path: Path) -> None:
    """Hudi takes the value from the path, where both are spelled alike; we from the file."""
    path = tmp_path / "t"
    rows = trips("a - 1 1").set_column(1, "city", pa.array([""]))
    Maker(hudi, path).write(rows)
    assert hudi.read(path)["city"].to_pylist() == [None]
    assert hoodoo.open_table(str(path)).to_arrow()["city"].to_pylist() == [""]


# What we cannot read is refused, not read wrongly.

PAYLOAD = "hoodie.datasource.write.payload.class"
KEEP_OLD = "org.apache.hudi.common.model.PartialUpdateAvroPayload"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(MOR | {PAYLOAD: KEEP_OLD}, id="partial updates"),
        pytest.param({"hoodie.datasource.write.drop.partition.columns": "true"}, id="no columns"),
    ],
)
def test_same_rows_or_refused(hudi: Peer, tmp_path: Path, options: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = Maker(hudi, path, options)
    table.upsert("a sf 1 10", "b la 1 20")
    table.upsert("a sf 2 -")
    try:
        ours = hoodoo.open_table(str(path)).to_arrow()
    except UnsupportedFeature:
        return
    assert_same_rows(ours, hudi.read(path))
