"""Running a write: conflicts are retried as often as asked, on the table as it is then."""

from __future__ import annotations

import pytest
from support.writer_machines import Fleet, Machine, rows

from hoodoo.errors import CommitUnknown, WriteConflict

RETRIES = "hoodie.write.num.retries.on.conflict.failures"


def overtake(north: Machine, south: Machine, *, times: int) -> None:
    """South commits to the same file group whenever north is about to write its file."""
    left = times

    def before(verb: str, path: str) -> None:
        nonlocal left
        if left and verb == "create" and path.endswith(".marker.MERGE"):
            left -= 1
            south.table.upsert(rows(k1=100 + left))

    north.storage.before(before)


@pytest.mark.parametrize(("retries", "conflicts"), [(1, 1), (3, 2), (3, 3)])
def test_conflicts_are_retried_with_back_off(retries: int, conflicts: int) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north", **{RETRIES: retries}), fleet.machine("south")
    south.table.insert(rows(k1=1, k2=2))
    overtake(north, south, times=conflicts)
    north.table.upsert(rows(k2=20))
    assert south.rows() == {"k1": 100, "k2": 20}
    assert not south.ref.load_timeline().pending
    pauses = [pause for pause in north.clock.slept if pause >= 0.1]
    assert pauses == [pytest.approx(0.1 * 2**n) for n in range(conflicts)]


@pytest.mark.parametrize("retries", [0, 2])
def test_write_conflict_raised_after_last_retry(retries: int) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north", **{RETRIES: retries}), fleet.machine("south")
    south.table.insert(rows(k1=1, k2=2))
    overtake(north, south, times=retries + 1)
    with pytest.raises(WriteConflict) as caught:
        north.table.upsert(rows(k2=20))
    assert "test app on south" in str(caught.value)
    assert "UPSERT" in str(caught.value)
    (group,) = caught.value.file_groups
    assert group.startswith("part=a/")
    (other,) = caught.value.conflicting_instants
    found = south.ref.load_timeline().find(other)
    assert found is not None
    assert found.is_completed
    assert south.rows() == {"k1": 100, "k2": 2}
    assert not south.ref.load_timeline().pending


def test_an_unknown_outcome_is_never_retried() -> None:
    fleet = Fleet()
    north = fleet.machine("north", **{RETRIES: 5})
    north.storage.lose("create", r"_\d+\.commit$", landed=True)
    north.storage.lose("create", r"_\d+\.commit$", landed=False, times=100)
    with pytest.raises(CommitUnknown):
        north.table.insert(rows(k1=1))
    assert fleet.machine("south").rows() == {"k1": 1}


def test_writes_that_overlap_nobody_need_no_retry() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows("a", k1=1))
    south.table.insert(rows("b", k2=2))
    left = 1

    def before(verb: str, path: str) -> None:
        nonlocal left
        if left and path.endswith(".marker.MERGE"):
            left = 0
            south.table.upsert(rows("b", k2=20))
            south.table.insert(rows("c", k3=3))

    north.storage.before(before)
    north.table.upsert(rows("a", k1=10))
    assert left == 0
    assert south.rows() == {"k1": 10, "k2": 20, "k3": 3}
