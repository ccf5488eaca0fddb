"""docs/protocol says what the protocols do: its tables are held against runs that are cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.writer_machines import EXPIRY_S, Fleet, Machine, PowerCut, rows

from hoodoo.api.table import Table
from hoodoo.concurrency.heartbeats import WriterStatus
from hoodoo.concurrency.transactions.head import read_content
from hoodoo.format import json_files
from hoodoo.model import paths
from hoodoo.model.coordination import Decision, DecisionKind, HeartbeatBody
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import PlanTerms
from hoodoo.recovery.recover import RecoverResult, judge_instant
from hoodoo.recovery.rollback import NO_PLAN, PlanState
from hoodoo.runtime.engine import LocalEngine
from hoodoo.storage.traced import TracedStorage

PAGES = Path(__file__).resolve().parents[2] / "docs" / "protocol"
CHANGES = ("create", "put", "replace", "delete", "open_write")
T, R = InstantTime("20260102000000001"), InstantTime("20260102000000002")


def table(page: str, *header: str) -> list[list[str]]:
    """The rows of the one table of a page that has these columns."""
    lines = (PAGES / page).read_text().splitlines()
    at = lines.index("| " + " | ".join(header) + " |")
    found = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert all(len(row) == len(header) for row in found)
    return found


def steps(page: str, first: str) -> list[tuple[str, str]]:
    """The operations that a page tells, and what recover makes of a crash after each."""
    told = table(page, first, "operation", "a crash right after it leaves", "recover")
    return [(re.findall("`(.*?)`", row[1])[0], row[3]) for row in told]


COMMIT, ROLLBACK = steps("commit.md", "phase"), steps("rollback.md", "step")


class Cut:
    """Kills a machine right after so many changes."""

    def __init__(self, machine: Machine, changes: int | None = None) -> None:
        self.left = changes
        self.storage = TracedStorage(machine.storage, before=self._before)
        env = replace(machine.ref.env, storage=self.storage)
        self.table = Table(replace(machine.ref, env=env), LocalEngine(threads=1))

    def _before(self, verb: str, path: str) -> None:
        if self.left == 0:
            raise PowerCut
        if self.left is not None and verb in CHANGES:
            self.left -= 1

    def changes(self) -> list[str]:
        """What it changed, with the names that the pages use."""
        done = [o for o in self.storage.operations if o.verb in CHANGES and o.failure is None]
        times = sorted({t for o in done for t in re.findall(r"heartbeat/(\d{17})", o.path)})
        names = dict(zip(times, "TR" if len(times) == 2 else "T", strict=True))

        def plain(path: str) -> str:
            path = re.sub(r"[\w-]+_0-1-0_\d{17}\.parquet", "FILE", path)
            path = re.sub(r"(?<=\d{17}_)\d{17}", "C", path)
            path = re.sub(r"(?<=probes/).*", "P", path)
            return re.sub(r"\d{17}", lambda found: names.get(found[0], "OLD"), path)

        return [f"{o.verb} {plain(o.path)}" for o in done]


def upsert(found: Cut) -> None:
    found.table.upsert(rows(k1=2))


def recover(found: Cut) -> None:
    found.table.recover()


def run(cut: Cut, work: Callable[[Cut], None]) -> None:
    """Do it, as far as the machine lives."""
    try:
        work(cut)
    except PowerCut:
        assert cut.left == 0


def fleet() -> Fleet:
    made = Fleet()
    made.machine("first").table.insert(rows(k1=1))
    return made


def recovered(fleet: Fleet, known: set[str]) -> tuple[RecoverResult, set[str]]:
    """What the next recover does, and the instants that are completed then."""
    east = fleet.machine("east")
    done = east.table.recover()
    timeline = east.ref.load_timeline()
    assert not timeline.pending
    return done, {i.requested_time for i in timeline.completed} - known


def completed(fleet: Fleet) -> set[str]:
    return {i.requested_time for i in fleet.machine("look").ref.load_timeline().completed}


def test_commit_makes_the_operations_of_the_docs() -> None:
    cut = Cut(fleet().machine("north"))
    upsert(cut)
    assert cut.changes() == [operation for operation, _ in COMMIT]


@pytest.mark.parametrize("at", range(len(COMMIT)))
def test_commit_that_dies_at_any_step_recovers_as_documented(at: int) -> None:
    _, expected = COMMIT[at]
    world = fleet()
    known, north = completed(world), world.machine("north")
    run(Cut(north, at + 1), upsert)
    north.clock.is_stopped = True
    world.world.pass_time(2 * EXPIRY_S + 200)
    done, new = recovered(world, known)
    rolled_back = {one.rollback for one in done.rolled_back}
    if new - rolled_back:
        outcome = "committed"
    elif rolled_back:
        outcome = "rolled back"
    else:
        outcome = "swept" if any("heartbeat" in p for p in done.swept.leftovers) else "nothing"
    assert outcome == expected
    assert world.machine("look").rows() == {"k1": 2 if outcome == "committed" else 1}
    assert len(world.data_files()) == 1 + (outcome == "committed")


def dead_write(world: Fleet) -> None:
    north = world.machine("north")
    at = [operation for operation, _ in COMMIT].index("open_write part=a/FILE")
    run(Cut(north, at + 1), upsert)
    north.clock.is_stopped = True
    world.world.pass_time(2 * EXPIRY_S + 200)


def test_rollback_makes_the_operations_of_the_docs() -> None:
    world = fleet()
    dead_write(world)
    cut = Cut(world.machine("south"))
    recover(cut)
    told = [operation for operation, _ in ROLLBACK]
    changes = cut.changes()
    assert changes[: len(told)] == told
    assert all(each.split("/")[-1] in ("P", "OLD") for each in changes[len(told) :])  # sweep


@pytest.mark.parametrize("at", range(len(ROLLBACK)))
def test_rollback_that_dies_at_any_step_recovers_as_documented(at: int) -> None:
    _, expected = ROLLBACK[at]
    world = fleet()
    dead_write(world)
    known, south = completed(world), world.machine("south")
    run(Cut(south, at + 1), recover)
    south.clock.is_stopped = True
    pending = {i.requested_time for i in world.machine("look").ref.load_timeline().pending}
    world.world.pass_time(2 * EXPIRY_S + 200)
    done, new = recovered(world, known)
    if not done.rolled_back:
        outcome = "done"
        assert len(new) == 1
    else:
        outcome = "finished" if done.rolled_back[0].rollback in pending else "rolled back"
    assert outcome == expected
    assert world.machine("look").rows() == {"k1": 1}
    assert len(world.data_files()) == 1


def test_verdicts_agree_with_the_docs() -> None:
    told = table("rollback.md", "pending instant", "writer alive", "writer dead")
    by_action = {name: row[1:] for row in told for name in re.findall("`(.*?)`", row[0])[:3]}
    by_action["replacecommit"] = told[0][1:]  # it is in two rows
    assert set(by_action) == {action.value for action in Action}
    alive, dead = WriterStatus(0, 1), WriterStatus(2, 1)
    persistent = PlanState(PlanTerms(), b"", None)
    services = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
    plans = dict.fromkeys(services, persistent)
    for action in Action:
        instant = Instant(T, action, State.INFLIGHT)
        for pulse, expected in zip((alive, dead), by_action[action.value], strict=True):
            verdict = judge_instant(instant, pulse, plan=plans.get(action, NO_PLAN))
            assert verdict.fate.value == expected, action
        assert judge_instant(instant, dead, rolled_back_by=R).fate.value == "leave"
        moot = judge_instant(instant, dead, undoes=R)
        assert moot.fate.value == "leave"
    plan = Instant(T, Action.REPLACE_COMMIT, State.INFLIGHT)
    assert judge_instant(plan, dead, plan=persistent).fate.value == "leave"


def json_example(page: str) -> str:
    """The one block of JSON of a page."""
    found = list(re.finditer("```json\n(.*?)\n```", (PAGES / page).read_text(), re.DOTALL))
    assert len(found) == 1
    return found[0][1]


def plain_paths(decision: Decision) -> list[str]:
    """The files that a decision is about, with the names that the pages use."""
    names = {decision.instant: "T", decision.latest: "C"}
    return [
        re.sub(r"\d{17}", lambda time: names[InstantTime(time[0])], path)
        for path in (decision.path, decision.needs or "")
    ]


def test_head_agrees_with_the_docs() -> None:
    text, world = json_example("commit.md"), fleet()
    told = json_files.decode(text.encode(), Decision)
    assert json.loads(json_files.encode(told)) == json.loads(text)
    assert read_content(world.store, told) == b"Obj\x01"
    found = json_files.decode(world.store.read(paths.HEAD), Decision)
    assert (told.kind, plain_paths(told)) == (found.kind, plain_paths(found))


def test_decision_fields_and_kinds_agree_with_the_docs() -> None:
    names = [each.name for each in fields(Decision)]
    assert list(json.loads(json_example("commit.md"))) == names
    lines = (PAGES / "commit.md").read_text().splitlines()
    told = lines[lines.index("| field | |") + 2 :]
    assert [line.split("`")[1] for line in told[: told.index("")]] == names
    kinds = table("commit.md", "kind", "decides that", "carried out by", "void")
    assert [row[0].strip("`") for row in kinds] == [kind.value for kind in DecisionKind]


def test_heartbeat_body_agrees_with_the_docs() -> None:
    text = json_example("heartbeats.md")
    beat = json_files.decode(text.encode(), HeartbeatBody)
    assert json.loads(json_files.encode(beat)) == json.loads(text)
    assert str(beat) in (PAGES / "heartbeats.md").read_text()
