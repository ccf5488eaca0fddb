"""A soak from its first process to its verdict."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
from processes.table_checks import (
    check_files,
    check_temporaries,
    check_timeline,
    recover_wholly,
    wheel_rows,
)
from support.processes import Child, Children, until

import hoodoo
from hoodoo.errors import HoodooError, PlanInProgress
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Instant, State
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import read_commit
from hoodoo_testing.tables.fresh_indexes import find_differences
from soak.indexer import INDEXES
from soak.keys import SCHEMA, is_witness, key_number, rows_of
from soak.verdict import Findings, Rows, check_at_end, check_windows
from soak.world import World
from soak.writer_processes import STOP_S, Crew
from soak.writes import HUDI, Outcome, Write, load_writes

KILL_EVERY_S = 1.0
CHECK_EVERY_S = 20.0
FOLLOW_EVERY_S = 1.0
AFTER = 8
"""The number of the writer that writes when all is over."""

_UNUSED = 9_000_000
_END_WITHIN_S = 180.0
_SWEPT_WITHIN_S = 120.0
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Setting:
    """What is asked for."""

    minutes: float
    kind: str
    store: str
    lock: str
    beside_hudi: bool
    seed: int
    indexes: bool = False
    """Whether indexes are built and dropped meanwhile."""


@dataclass
class Result:
    """How a soak went."""

    findings: Findings = field(default_factory=Findings)
    writes: list[Write] = field(default_factory=list)
    kills: int = 0
    stops: int = 0
    rows: int = 0
    keys: int = 0
    checks: int = 0
    windows: int = 0
    excused: int = 0
    swept_s: float | None = None
    builds: int = 0
    """Changes of indexes that were acknowledged."""

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """What fails in this block is a finding, and the soak goes on."""
        try:
            yield
        except (AssertionError, HoodooError) as error:
            self.findings.add("other", what, f"{type(error).__name__}: {error}")


def conduct(setting: Setting, world: World, folder: Path) -> Result:
    """Let all loose on the table, end them, recover, and judge."""
    result = Result()
    table = hoodoo.open_table(world.uri, world.options)
    began = time.time()
    end_at = began + setting.minutes * 60
    deadline_s = int(setting.minutes * 60 + _END_WITHIN_S + _SWEPT_WITHIN_S)
    common = {"uri": world.uri, "options": dict(world.options), "until": end_at, "began": began}
    follow = {"every_s": FOLLOW_EVERY_S, "finish": str(folder / "finish")}
    look = {"every_s": CHECK_EVERY_S, "folder": str(folder)}
    with Children(folder) as children:

        def start(name: str, **more: object) -> Child:
            spec = {**common, **more}
            return children.start(_HERE / f"{name}.py", spec, deadline_s=deadline_s)

        follower, others = start("follower", **follow), [start("checker", **look)]
        if setting.beside_hudi:
            others.append(start("hudi_writer", folder=str(folder), kind=setting.kind))
        chance = random.Random(setting.seed)
        spec = {**common, "options": list(map(dict, world.writer_options)), "seed": setting.seed}
        crew = Crew(children, spec, table, chance, deadline_s=deadline_s)
        indexer = Indexer(start, chance) if setting.indexes else None
        strike(crew, chance, end_at, result, indexer)
        if indexer is not None:
            indexer.end(result)
        for told in crew.end(within_s=_END_WITHIN_S):
            result.findings.add("other", "a writer did not end well", told)
        result.kills, result.stops = result.kills + crew.kills, result.stops + crew.stops
        for child in others:
            end(child, result)
        recover(setting, world, table, result)
        (folder / "finish").touch()
        end(follower, result)
        result.windows = len(follower.journal.entries())
        include_checks(others[0], result)
        judge(setting, world, folder, follower, result)
    return result


class Indexer:
    """The process that changes indexes: killed every ten seconds or so, stopped now and then."""

    def __init__(self, start: Callable[..., Child], chance: random.Random) -> None:
        self._start, self._chance = start, chance
        self._children = [start("indexer", seed=chance.randrange(1 << 30))]
        self._kill_at = time.time() + 10
        self._resume_at: float | None = None

    def strike(self, result: Result) -> None:
        """Kill it, or stop it, if it is time for that; a stopped one goes on."""
        child, now = self._children[-1], time.time()
        if self._resume_at is not None:
            if now >= self._resume_at:
                child.resume()
                self._resume_at = None
        elif child.code not in (None, 0):
            result.findings.add("other", "the indexer failed by itself", child.told())
            self._replace()
        elif now >= self._kill_at:
            self._kill_at = now + self._chance.uniform(2, 18)
            if self._chance.random() < 0.3:
                child.stop()
                self._resume_at = now + self._chance.uniform(4, 12)
                result.stops += 1
            else:
                child.kill()
                result.kills += 1
                self._replace()

    def end(self, result: Result) -> None:
        """Let it finish, and count what it did."""
        if self._resume_at is not None:
            self._children[-1].resume()
        end(self._children[-1], result)
        result.builds = sum(child.journal.words().count("ack") for child in self._children)

    def _replace(self) -> None:
        self._children.append(self._start("indexer", seed=self._chance.randrange(1 << 30)))


def strike(
    crew: Crew,
    chance: random.Random,
    end_at: float,
    result: Result,
    indexer: Indexer | None = None,
) -> None:
    """Kill and stop writers, and the indexer, until the end."""
    kill_at = stop_at = time.time()
    stop_at += 5
    while (now := time.time()) < end_at:
        crew.resume_due()
        if indexer is not None:
            indexer.strike(result)
        for told in crew.replace_failed():
            result.findings.add("other", "a writer failed by itself", told)
        if now >= stop_at and crew.stop_one():
            stop_at = now + STOP_S + chance.uniform(5, 25)
        if now >= kill_at:
            crew.kill_one()
            kill_at = now + KILL_EVERY_S * chance.uniform(0.5, 1.5)
        time.sleep(0.01)  # how fine the moments of kills are


def end(child: Child, result: Result) -> None:
    """Wait for the end of a process that was told when to end."""
    try:
        code = child.end(within_s=_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        code = None
        child.kill()
    if code != 0:
        result.findings.add("other", f"{child.journal.path.stem} did not end well", child.told())


def include_checks(checker: Child, result: Result) -> None:
    """Add what was wrong with reads while others wrote."""
    for entry in checker.journal.entries():
        result.checks += 1
        result.findings.include(entry["found"], f"read number {result.checks} meanwhile")


def recover(setting: Setting, world: World, table: hoodoo.Table, result: Result) -> None:
    """Roll back the dead and sweep, as often as it takes until they are expired and gone."""
    if setting.indexes:
        finish_builds(table, result)
    with result.noting("not recovered and swept"):
        if setting.beside_hudi:
            result.swept_s = recover_beside_hudi(world, table)
        else:
            result.swept_s = recover_wholly(world.uri, world.options, within_s=_SWEPT_WITHIN_S)


def finish_builds(table: hoodoo.Table, result: Result) -> None:
    """Complete what indexers left half built, once they count as dead, and compare all indexes."""
    with result.noting("an index cannot be completed"):

        def is_built() -> bool:
            table.recover()
            try:
                table.create_index(INDEXES)
            except PlanInProgress:
                return False
            return {each.state for each in table.inspect.indexes()} == {"complete"}

        until("indexes are built", is_built, within_s=_SWEPT_WITHIN_S, every_s=1.0)
    with result.noting("indexes"):
        differences = find_differences(table._ref)
        assert not differences, differences


def recover_beside_hudi(world: World, table: hoodoo.Table) -> float:
    """Recover until nothing is pending; what Hudi leaves besides (checksums) may stay.

    A refused write of Hudi's stays pending, without a heartbeat that would name an owner, and
    hoodoo waits ten minutes for it. Hudi has ended here, so that it can be taken from it.
    """
    ref, began = open_ref(world.uri, world.options), time.monotonic()
    for one in table.timeline():
        if one.completion_time is None and one.owner is None:
            table.rollback(one.requested_time, force=True)

    def is_done() -> bool:
        table.recover()
        return not ref.load_timeline().pending

    until("nothing is pending", is_done, within_s=_SWEPT_WITHIN_S, every_s=0.2)
    return time.monotonic() - began


def judge(setting: Setting, world: World, folder: Path, follower: Child, result: Result) -> None:
    """Compare the table with the journals, and what hoodoo reads with what the wheel reads."""
    ref = open_ref(world.uri, world.options)
    table = hoodoo.Table(ref)
    rows = table.to_arrow().to_pylist()
    commits = load_commits(ref)
    metadata = commit_reader(ref, commits)
    writes = with_instants(load_writes(folder), rows, commits, metadata)
    completions = {
        time_: instant.completion_or_requested_time for time_, instant in commits.items()
    }
    at_end = check_at_end(rows, writes, completions)
    if setting.beside_hudi:
        excused = check_at_end(
            rows, writes, completions, is_excused=hudi_came_second(commits, metadata)
        )
        result.excused = sum(map(len, at_end.by_kind.values()))
        result.excused -= sum(map(len, excused.by_kind.values()))
        at_end = excused
    result.findings.include(at_end.as_lists(), "at the end")
    windows = check_windows(follower.journal.entries(), rows, writes)
    result.findings.include(windows.as_lists(), "incremental reads")
    compare_with_wheel(world, rows, result)
    if not setting.beside_hudi:  # Hudi leaves checksum files, and files of writes it gave up
        with result.noting("timeline"):
            check_timeline(ref)
        with result.noting("files"):
            check_files(ref)
        with result.noting("temporary files"):
            check_temporaries(ref)
    write_once_more(table, rows, result)
    result.writes = writes
    result.rows = len(rows)
    result.keys = len({row["id"] for row in rows if not is_witness(row["id"])})


def load_commits(ref: TableRef) -> dict[str, Instant]:
    """The completed commits by their instants, archived ones too: a long soak archives."""
    archived = {
        old.requested_time: Instant(
            old.requested_time, old.action, State.COMPLETED, old.completion_time
        )
        for old in load_history(ref.env, ref.properties.timeline_paths)
        if old.action.writes_data
    }
    return {**archived, **{i.requested_time: i for i in ref.load_timeline().commits}}


def compare_with_wheel(world: World, rows: Rows, result: Result) -> None:
    """The wheel reads the same rows, in all columns."""
    theirs = Counter(map(repr, wheel_rows(world.uri, world.options, rows)))
    ours = Counter(map(repr, rows))
    if theirs != ours:
        ours_alone, theirs_alone = ours - theirs, theirs - ours
        detail = f"{ours_alone.total()} rows only in ours, {theirs_alone.total()} only in theirs: "
        examples = [*ours_alone][:3], [*theirs_alone][:3]
        result.findings.add("other", "the wheel reads other rows", f"{detail}{examples}")


def write_once_more(table: hoodoo.Table, rows: Rows, result: Result) -> None:
    """The table can still be written: keys that are there once, and some that are not."""
    times = Counter(row["id"] for row in rows if not is_witness(row["id"]))
    there = [key_number(key) for key, count in times.items() if count == 1]
    new = rows_of(AFTER, 0, [*there[:20], *range(_UNUSED, _UNUSED + 20)]).to_pylist()
    ids = {row["id"] for row in new}
    with result.noting("an upsert at the end"):
        table.upsert(pa.Table.from_pylist(new, SCHEMA))
        found = table.to_arrow(columns=SCHEMA.names).to_pylist()
        assert sorted((r for r in found if r["id"] in ids), key=repr) == sorted(new, key=repr)


# -- Apache Hudi's part ---------------------------------------------------------------------------

Reader = Callable[[str], CommitMetadata]


def commit_reader(ref: TableRef, commits: dict[str, Instant]) -> Reader:
    """Reads the metadata of a commit, once."""

    @cache
    def read(instant: str) -> CommitMetadata:
        return read_commit(ref.env, ref.properties.timeline_paths, commits[instant])

    return read


def with_instants(
    writes: list[Write], rows: Rows, commits: dict[str, Instant], metadata: Reader
) -> list[Write]:
    """The writes with their instants: Hudi does not tell them, its commits and our rows do."""
    instants = {row["id"]: row["_hoodie_commit_time"] for row in rows if is_witness(row["id"])}
    if any(write.writer == HUDI for write in writes):
        for instant in commits:
            witness = metadata(instant).extra_metadata.get("soak.witness")
            if witness is not None:
                instants[witness] = instant
    return [
        replace(write, instant=instants.get(write.witness))
        if write.instant is None and write.outcome is not Outcome.REFUSED
        else write
        for write in writes
    ]


def hudi_came_second(
    commits: dict[str, Instant], metadata: Reader
) -> Callable[[Write, Write], bool]:
    """Whether a commit of Hudi's should have been refused for an earlier one, by Hudi itself.

    It began before the other was completed and wrote to one of its file groups. Hudi notes what is
    committed a moment after it has chosen its time, and takes nothing that was committed between
    the two for a conflict (docs/compatibility.md). A commit of ours that comes second is ours.
    """

    def is_excused(first: Write, second: Write) -> bool:
        if not second.is_by_hudi or first.instant is None or second.instant is None:
            return False
        is_overlapping = second.instant < commits[first.instant].completion_or_requested_time
        groups = (
            set(metadata(instant).file_groups()) for instant in (first.instant, second.instant)
        )
        return is_overlapping and not set.isdisjoint(*groups)

    return is_excused
