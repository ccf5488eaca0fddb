"""docs/protocol/robust-writes.md says what attempts do: its tables are held against runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from support.attempts import Driver, RepeatingEngine, fleet
from support.writer_machines import EXPIRY_S, Fleet, Machine, PowerCut, rows

from hoodoo.api.table import Table
from hoodoo.errors import CommitFailed
from hoodoo.model import paths
from hoodoo.model.commit import WriteStat
from hoodoo.storage.traced import TracedStorage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol" / "robust-writes.md"
CHANGES = ("create", "put", "replace", "delete", "open_write")


def table(*header: str) -> list[list[str]]:
    """The rows of the one table of the page that has these columns first."""
    lines = PAGE.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("| " + " | ".join(header)))
    found = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


STEPS = [(re.findall("`(.*?)`", row[1])[0], row[3]) for row in table("phase", "operation")]
LATE = {row[0]: row[1:] for row in table("held up", "another attempt is done")}
MEANWHILE = ("done", "finalized", "committed", "swept", "rolling back", "rolled back")


# -- the driver's table ---------------------------------------------------------------------------


class Cut:
    """Kills a machine right after so many changes."""

    def __init__(self, machine: Machine, changes: int | None = None) -> None:
        self.left = changes
        self.storage = TracedStorage(machine.storage, before=self._before)
        env = replace(machine.ref.env, storage=self.storage)
        self.table = Table(replace(machine.ref, env=env), RepeatingEngine(threads=1))

    def _before(self, verb: str, path: str) -> None:
        if self.left == 0:
            raise PowerCut
        if self.left is not None and verb in CHANGES:
            self.left -= 1

    def changes(self) -> list[str]:
        done = [o for o in self.storage.operations if o.verb in CHANGES and o.failure is None]

        def plain(path: str) -> str:
            path = re.sub(r"[\w-]+_0-1-0_\d{17}\.parquet", "FILE", path)
            path = re.sub(r"(?<=/1/)[\w-]+", "HANDLE", path)
            path = re.sub(r"(?<=\d{17}_)\d{17}", "C", path)
            return re.sub(r"\d{17}", "T", path)

        return [f"{o.verb} {plain(o.path)}" for o in done]


def test_the_operations_of_a_write_are_those_of_the_page() -> None:
    cut = Cut(fleet().machine("north"))
    cut.table.upsert(rows(k1=2))
    assert cut.changes() == [operation for operation, _ in STEPS]


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_crashed_write_leaves_what_the_page_says(at: int) -> None:
    world = fleet()
    known = {i.requested_time for i in world.machine("look").ref.load_timeline()}
    north = world.machine("north", **{"hoodie.table.services.enabled": False})
    with pytest.raises(PowerCut) if at + 1 < len(STEPS) else nullcontext():
        Cut(north, at + 1).table.upsert(rows(k1=2))
    world.die(north)
    east = world.machine("east")
    done = east.table.recover()
    new = {i.requested_time for i in east.ref.load_timeline()} - known
    rolled_back = {one.rollback for one in done.rolled_back}
    if new - rolled_back:
        outcome = "committed"
    elif rolled_back:
        outcome = "rolled back"
    else:
        outcome = "swept" if any("heartbeat" in p for p in done.swept.leftovers) else "nothing"
    assert outcome == STEPS[at][1]
    assert east.rows() == {"k1": 2 if outcome == "committed" else 1}
    for _ in range(2):
        world.world.pass_time(2 * EXPIRY_S)
        east.table.recover()
    assert len(world.data_files()) == 1 + (outcome == "committed")
    left = [entry.path for entry in world.store.list(paths.HOODOO_DIRECTORY, recursive=True)]
    assert left == [paths.HEAD]


# -- the table of those who come late -------------------------------------------------------------


def hold_up(where: str) -> Callable[[str, str], bool]:
    """Tells when an attempt comes to this point."""
    counts = {"finalize": 0, "completion": 0}

    def is_there(verb: str, path: str) -> bool:
        for name in counts:
            counts[name] += f"/{name}/" in path and verb == "read"
        match where:
            case "before it begins":
                return True
            case "while it writes":
                return counts["completion"] == 2
            case "before it publishes":
                return verb == "open_write"
            case "before its completion marker":
                return verb == "create" and "/completion/" in path
            case "before its last look":
                return counts["finalize"] == 3
        raise AssertionError(where)

    return is_there


def happen(what: str, world: Fleet, driver: Driver) -> Sequence[WriteStat]:
    """Do to the write what the table's column says; tells what counts then."""
    if what in ("rolling back", "rolled back"):
        medic = world.machine("medic")
        if what == "rolling back":
            cut_off(medic)
        world.die(driver.machine)
        try:
            medic.table.recover()
        except PowerCut:
            assert what == "rolling back"
        return ()
    stats = driver.attempt(world.machine("twin"), 2)
    if what != "done":
        driver.finalize(stats)
    if what in ("committed", "swept"):
        driver.commit(stats)
    if what == "swept":
        for _ in range(3):
            world.world.pass_time(2 * EXPIRY_S)
            world.machine("sweeper").table.recover()
        assert not list(world.store.list(paths.FINALS))
    return stats


def cut_off(medic: Machine) -> None:
    """The medic dies once its rollback is scheduled, before it deletes anything."""

    def before(verb: str, path: str) -> None:
        if verb in ("delete", "put") and (path.startswith("part=") or "/sweeps/" in path):
            raise PowerCut

    medic.storage.before(before)


@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("where", LATE)
def test_delayed_attempt_ends_as_the_page_says(where: str, what: str) -> None:
    expected = LATE[where][MEANWHILE.index(what)]
    world = fleet()
    driver, late = Driver.begin(world), world.machine("late")
    known = set(world.data_files())
    is_there = hold_up(where)
    others: list[Sequence[WriteStat]] = []
    did = []

    def before(verb: str, path: str) -> None:
        if not others and is_there(verb, path):
            others.append(happen(what, world, driver))
        if verb == "open_write":
            did.append("publishes")
        elif verb == "delete" and path.startswith("part="):
            did.append("deletes")

    try:
        assert [driver.attempt(late, 1, before=before)] == others
        did.append("returns")
    except CommitFailed:
        did.append("fails")
    assert ", ".join(did) == expected
    (stats,) = others
    assert set(world.data_files()) - known == {stat.path for stat in stats}
    if what in ("committed", "swept"):
        assert world.machine("reader").rows() == {"k1": 2}
