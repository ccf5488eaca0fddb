"""A writer stalls when it is about to decide, loses the lock, and others go on without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.interruptions import act_once_at
from support.writer_machines import EXPIRY_S, Fleet, Machine, rows

from hoodoo.concurrency.locks.table_lock import break_lock
from hoodoo.concurrency.transactions.gate import request_plan
from hoodoo.concurrency.transactions.transaction import new_time, transaction
from hoodoo.errors import TableChanged, UnsupportedFeature, WriteConflict
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.plans import CompactionPlan

RETRIES = {"hoodie.write.num.retries.on.conflict.failures": 2}
NEW_GROUPS = {"hoodie.parquet.small.file.limit": 0}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
TYPES = pytest.mark.parametrize("kind", ["cow", "mor"])


def stall(fleet: Fleet, meanwhile: Callable[[Machine], object], **options: object) -> Machine:
    """A machine that stops once when it is about to replace the head, while others act."""
    north, south = fleet.machine("north", **options), fleet.machine("south")

    def before() -> None:
        break_lock(south.ref)
        meanwhile(south)

    act_once_at(north, "replace", f"^{paths.HEAD}$", before)
    return north


@TYPES
@pytest.mark.parametrize("index", [NEW_GROUPS, BUCKETS], ids=["simple", "bucket"])
@pytest.mark.parametrize("retries", [0, 2])
def test_key_inserted_by_two_writers_is_stored_once(
    kind: str, index: dict[str, object], retries: int
) -> None:
    """Hole 4: both inserted it; under the bucket index the table could not be upserted any more."""
    fleet = Fleet(kind, **index)
    fleet.machine("first").table.insert(rows("other", k0=0))
    north = stall(
        fleet,
        lambda south: south.table.upsert(rows("a", k1=1)),
        **{"hoodie.write.num.retries.on.conflict.failures": retries},
    )
    if retries:
        assert north.table.upsert(rows("a", k1=2)).stats.updated == 1
    else:
        with pytest.raises(WriteConflict):
            north.table.upsert(rows("a", k1=2))
    south = fleet.machine("south")
    assert south.table.to_arrow(columns=["id"])["id"].to_pylist().count("k1") == 1
    south.table.upsert(rows("a", k1=3))
    assert south.rows() == {"k0": 0, "k1": 3}


@TYPES
def test_completion_times_grow_in_order_of_visibility(kind: str) -> None:
    """Hole 5: an incremental reader had passed the time that the stalled one had drawn."""
    fleet = Fleet(kind)
    since = fleet.machine("first").table.insert(rows("z", k0=0)).completion_time
    seen: list[InstantTime] = []

    def meanwhile(south: Machine) -> None:
        seen.append(south.table.insert(rows("b", k2=2)).completion_time)
        assert south.table.changes(since=since)["id"].to_pylist() == ["k2"]

    done = stall(fleet, meanwhile).table.insert(rows("a", k1=1))
    assert done.completion_time > seen[0]
    south = fleet.machine("south")
    assert south.table.changes(since=seen[0])["id"].to_pylist() == ["k1"]


def test_log_is_completed_above_a_compaction_that_does_not_include_it() -> None:
    """Hole 5: it fell into the slice before the compaction, and would have disappeared."""
    fleet = Fleet("mor", **NEW_GROUPS)
    fleet.machine("first").table.insert(rows(k1=1))
    planned: list[InstantTime] = []

    def meanwhile(south: Machine) -> None:
        fleet.world.pass_time(60)
        with transaction(south.ref, "plan") as txn:

            def plan() -> tuple[InstantTime, bytes]:
                time = new_time(txn)
                planned.append(time)
                return time, codec.encode(CompactionPlan())

            request_plan(txn, Action.COMPACTION, "planner", plan)

    done = stall(fleet, meanwhile).table.upsert(rows(k1=2))
    assert done.completion_time > planned[-1]


# -- overwrites -------------------------------------------------------------------------------


def overwrite(machine: Machine, operation: str, *, key: str = "k1") -> object:
    if operation == "delete_partitions":
        return machine.table.delete_partitions(["part=a"])
    return getattr(machine.table, operation)(rows("a", **{key: 5}))


OVERWRITES = ["insert_overwrite", "insert_overwrite_table"]


@TYPES
@pytest.mark.parametrize("mine", OVERWRITES)
@pytest.mark.parametrize("theirs", OVERWRITES)
def test_second_overwrite_of_an_empty_partition_conflicts(
    kind: str, mine: str, theirs: str
) -> None:
    """Hole 6: both stood, and the key was there twice."""
    fleet = Fleet(kind)
    fleet.machine("first").table.insert(rows("other", k0=0))
    north = stall(fleet, lambda south: overwrite(south, theirs))
    with pytest.raises(WriteConflict, match="it adds rows in"):
        overwrite(north, mine)
    found = fleet.machine("south").table.to_arrow(columns=["id"])["id"].to_pylist()
    assert found.count("k1") == 1


@TYPES
@pytest.mark.parametrize("mine", [*OVERWRITES, "delete_partitions"])
@pytest.mark.parametrize("theirs", ["insert", "upsert", "bulk_insert", "insert_overwrite"])
def test_overwrite_conflicts_with_rows_added_meanwhile(kind: str, mine: str, theirs: str) -> None:
    fleet = Fleet(kind, **NEW_GROUPS)
    fleet.machine("first").table.insert(rows("a", k0=0))
    north = stall(fleet, lambda south: overwrite(south, theirs, key="k2"))
    with pytest.raises(WriteConflict):
        overwrite(north, mine)
    assert "k2" in fleet.machine("south").rows()


def test_an_overwrite_leaves_other_partitions_alone() -> None:
    fleet = Fleet()
    fleet.machine("first").table.insert(rows("a", k0=0))
    north = stall(fleet, lambda south: south.table.insert(rows("b", k2=2)))
    north.table.insert_overwrite(rows("a", k1=1))
    assert fleet.machine("south").rows() == {"k1": 1, "k2": 2}


# -- the table itself -------------------------------------------------------------------------


def change(fleet: Fleet, old: str, new: str) -> None:
    data = fleet.store.read(paths.PROPERTIES).decode()
    assert old in data
    fleet.store.put(paths.PROPERTIES, data.replace(old, new).encode())


METADATA = (
    "hoodie.table.version=9",
    "hoodie.table.version=9\nhoodie.table.metadata.partitions=files",
)


@pytest.mark.parametrize("operation", ["insert", "upsert", "insert_overwrite"])
def test_old_handle_is_refused_once_there_is_a_metadata_table(operation: str) -> None:
    """Hole 8: its commits were invisible to Hudi, and lost after Hudi's next upsert."""
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k0=0))
    change(fleet, *METADATA)
    before = fleet.machine("south").ref.load_timeline()
    with pytest.raises(UnsupportedFeature, match="metadata table"):
        getattr(north.table, operation)(rows(k1=1))
    assert fleet.machine("south").ref.load_timeline() == before


def test_write_fails_if_a_metadata_table_appears_meanwhile() -> None:
    fleet = Fleet()
    fleet.machine("first").table.insert(rows(k0=0))
    north = fleet.machine("north")

    def before() -> None:
        change(fleet, *METADATA)

    act_once_at(north, "create", r"\.marker\.MERGE$", before)
    with pytest.raises(TableChanged, match="metadata table"):
        north.table.upsert(rows(k0=1))
    assert fleet.machine("south").rows() == {"k0": 0}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("COPY_ON_WRITE", "MERGE_ON_READ"),
        ("recordkey.fields=id", "recordkey.fields=v"),
        ("partition.fields=part", "partition.fields=v"),
        ("timezone=UTC", "timezone=LOCAL"),
        ("hoodie.table.version=9", "hoodie.table.version=8"),
    ],
)
def test_old_handle_is_refused_if_the_table_changed(old: str, new: str) -> None:
    """Hole 8: an old handle wrote with the keys and the type of the table that had been there."""
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k0=0))

    def become_another(south: Machine) -> None:
        change(fleet, old, new)

    stalled = stall(fleet, become_another)
    done = stalled.table.insert(rows(k1=1))  # it was decided before anybody else decided anything
    assert done.instant
    with pytest.raises(TableChanged, match="open it again"):
        north.table.insert(rows(k2=2))


def test_write_fails_if_the_table_changes_meanwhile() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k0=0))

    def before() -> None:
        change(fleet, "COPY_ON_WRITE", "MERGE_ON_READ")

    act_once_at(north, "create", r"\.marker\.MERGE$", before)
    with pytest.raises(TableChanged):
        north.table.upsert(rows(k0=1))


def test_write_succeeds_if_other_table_properties_changed() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k0=0))
    change(fleet, "hoodie.table.version=9", "hoodie.table.version=9\nhoodie.extra=1")
    north.table.insert(rows(k1=1))
    assert fleet.machine("south").rows() == {"k0": 0, "k1": 1}


def test_a_clock_far_ahead_blocks_nobody() -> None:
    """Hole 10: every other writer was refused until its own clock had come as far."""
    fleet = Fleet()
    ahead = fleet.machine("ahead", wall_ms=10 * 86_400_000).table.insert(rows(k0=0))
    done = fleet.machine("north").table.upsert(rows(k0=1, k1=1))
    assert done.instant > ahead.completion_time
    assert fleet.machine("south").rows() == {"k0": 1, "k1": 1}
    fleet.world.pass_time(EXPIRY_S)
