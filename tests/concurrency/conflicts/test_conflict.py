"""The rules, against the matrix in the documents, against their own algebra, and on real files."""

from __future__ import annotations

import itertools
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.built_table import HandMade, at, commit_metadata, group
from support.log_headers import copy_without_headers
from support.wheel import wheel_rows

import hoodoo
from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    Conflict,
    GroupEffect,
    InstantKind,
    PublishingInstant,
    classify_commit,
    collect_group_effects,
    could_conflict,
    find_conflicts,
    make_conflict_error,
)
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import CommitFailed, EarlyConflict, WriteConflict
from hoodoo.model.commit import CommitMetadata, OperationType, WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol" / "conflicts.md"

SIMPLE, PREFER, BUCKET = (
    ConflictStrategy.SIMPLE,
    ConflictStrategy.PREFER_WRITER,
    ConflictStrategy.BUCKET,
)
INGESTION, COMPACTION, LOGS, CLUSTERING, UNDO = InstantKind
EARLIER, MY_TIME, LATER = at(40), at(50), at(60)

WHAT = {
    "write, appends": (INGESTION, GroupEffect.APPEND, Action.DELTA_COMMIT),
    "write, rewrites": (INGESTION, GroupEffect.REWRITE, Action.DELTA_COMMIT),
    "write, replaces": (INGESTION, GroupEffect.REPLACE, Action.REPLACE_COMMIT),
    "write": (INGESTION, GroupEffect.REWRITE, Action.DELTA_COMMIT),
    "compaction": (COMPACTION, GroupEffect.REWRITE, Action.COMPACTION),
    "log compaction": (LOGS, GroupEffect.APPEND, Action.LOG_COMPACTION),
    "clustering": (CLUSTERING, GroupEffect.REPLACE, Action.CLUSTERING),
    "restore": (UNDO, GroupEffect.REPLACE, Action.RESTORE),
}


def mine(what: str, *where: FileGroupId, time: InstantTime = MY_TIME) -> PublishingInstant:
    kind, how, _ = WHAT[what]
    return PublishingInstant(time, kind, dict.fromkeys(where, how))


def other(
    what: str, *where: FileGroupId, time: InstantTime = LATER, pending: bool = False
) -> ConcurrentInstant:
    kind, how, action = WHAT[what]
    state = State.INFLIGHT if pending else State.COMPLETED
    action = action if pending else action.completed_as
    instant = Instant(time, action, state, None if pending else at(99))
    touches = {} if kind is UNDO else dict.fromkeys(where, how)
    return ConcurrentInstant(instant, kind, what.upper(), touches)


# -- the matrix -------------------------------------------------------------------------------


def cells() -> list[tuple[ConflictStrategy, bool, str, str, str]]:
    """Each cell of the page: strategy, whether the other is pending, mine, the other, verdict."""
    found = []
    sections = re.findall(r"^### (.+?)\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    for title, table in sections:
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        header, rows = lines[0], lines[2:]
        for name, row in itertools.product(re.findall(r"`(\w+)`", title), rows):
            for column, verdict in zip(header[1:], row[1:], strict=True):
                cell = (title.startswith("Pending"), row[0], column, verdict)
                found.append((ConflictStrategy(name), *cell))
    return found


def test_docs_matrix_covers_all_pairs() -> None:
    rows = [what for what in WHAT if what not in ("write", "restore")]
    done = [what for what in WHAT if what != "write"]
    pending = [what for what in WHAT if not what.startswith("write,")]
    expected = {
        (strategy, is_pending, row, column)
        for strategy in ConflictStrategy
        for is_pending, columns in ((False, done), (True, pending))
        for row in rows
        for column in columns
    }
    assert {cell[:4] for cell in cells()} == expected
    assert len(cells()) == len(expected) == 3 * 6 * 12


def test_docs_matrix_agrees_with_the_rules() -> None:
    wrong = []
    for strategy, pending, row, column, verdict in cells():
        met = {}
        for name, time in (("if older", EARLIER), ("if newer", LATER)):
            theirs = other(column, group(1), group(2), time=time, pending=pending)
            met[name] = find_conflicts(strategy, mine(row, group(1), group(3)), [theirs])
            shared = [c.file_groups for c in met[name]]
            assert shared in ([], [(group(1),)], [()] if column == "restore" else [])
        here = {name for name, conflicts in met.items() if conflicts}
        told = {"ok": set(), "conflict": set(met)}.get(verdict, {verdict})
        if told != here:
            wrong.append((strategy.value, pending, row, column, verdict, here))
    assert not wrong


def test_instants_without_common_file_group_do_not_conflict() -> None:
    for strategy, pending, row, column, _ in cells():
        for time in (EARLIER, LATER):
            theirs = other(column, group(2), group(1, "la"), time=time, pending=pending)
            met = find_conflicts(strategy, mine(row, group(1)), [theirs])
            assert bool(met) == (column == "restore")


# -- buckets ----------------------------------------------------------------------------------


def bucket(number: int, rest: str, city: str = "sf") -> FileGroupId:
    return FileGroupId(PartitionPath(f"city={city}"), FileId(f"{number:08d}-{rest}-0"))


def test_new_groups_of_one_bucket_conflict_only_by_bucket_strategy() -> None:
    made = PublishingInstant(at(50), INGESTION, {bucket(3, "mine"): GroupEffect.CREATE})
    theirs = replace(other("write"), group_effects={bucket(3, "theirs"): GroupEffect.CREATE})
    assert [c.file_groups for c in find_conflicts(BUCKET, made, [theirs])] == [(bucket(3, "mine"),)]
    assert not find_conflicts(SIMPLE, made, [theirs])
    for elsewhere in (bucket(4, "theirs"), bucket(3, "theirs", "la"), bucket(30, "theirs")):
        theirs = replace(theirs, group_effects={elsewhere: GroupEffect.CREATE})
        assert not find_conflicts(BUCKET, made, [theirs])


# -- algebra ----------------------------------------------------------------------------------

GROUPS = [bucket(n, rest, city) for n in (1, 2) for rest in "ab" for city in ("sf", "la")]
touches = st.dictionaries(st.sampled_from(GROUPS), st.sampled_from(GroupEffect), max_size=4)
times = st.sampled_from([at(n) for n in (10, 20, 30, 40, 60, 70)])
strategies = st.sampled_from(ConflictStrategy)


def of_kind(
    kind: InstantKind, where: dict[FileGroupId, GroupEffect]
) -> dict[FileGroupId, GroupEffect]:
    """What an instant of this kind can do: services do one thing to all their groups."""
    how = {
        COMPACTION: GroupEffect.REWRITE,
        LOGS: GroupEffect.APPEND,
        CLUSTERING: GroupEffect.REPLACE,
    }.get(kind)
    return where if how is None else dict.fromkeys(where, how)


@st.composite
def mines(draw: st.DrawFn) -> PublishingInstant:
    kind = draw(st.sampled_from([INGESTION, COMPACTION, LOGS, CLUSTERING]))
    return PublishingInstant(at(50), kind, of_kind(kind, draw(touches)))


@st.composite
def others(draw: st.DrawFn, *, completed: bool = False, undo: bool = True) -> ConcurrentInstant:
    what = draw(st.sampled_from([w for w in WHAT if undo or w != "restore"]))
    pending = not completed and draw(st.booleans())
    made = other(what, time=draw(times), pending=pending)
    return replace(made, group_effects=of_kind(made.kind, draw(touches)))


def as_other(one: PublishingInstant, *, pending: bool = False) -> ConcurrentInstant:
    action = next(action for kind, _, action in WHAT.values() if kind is one.kind)
    instant = Instant(one.time, action.completed_as, State.COMPLETED, at(99))
    if pending:
        instant = Instant(one.time, action, State.INFLIGHT)
    return ConcurrentInstant(instant, one.kind, "", one.group_effects)


@given(strategies, mines(), st.lists(others(undo=False)))
def test_disjoint_groups_never_conflict(
    strategy: ConflictStrategy, one: PublishingInstant, found: list[ConcurrentInstant]
) -> None:
    buckets = {(g.partition, g.file_id[:8]) for g in one.group_effects}
    apart = [
        replace(
            each,
            group_effects={
                g: how for g, how in each.group_effects.items() if _is_apart(g, buckets)
            },
        )
        for each in found
    ]
    assert find_conflicts(strategy, one, apart) == []


def _is_apart(where: FileGroupId, buckets: set[tuple[PartitionPath, str]]) -> bool:
    return (where.partition, where.file_id[:8]) not in buckets


@given(strategies, mines(), st.lists(others(), max_size=5, unique_by=lambda o: o.time), st.data())
def test_conflicts_do_not_depend_on_order_of_others(
    strategy: ConflictStrategy,
    one: PublishingInstant,
    found: list[ConcurrentInstant],
    data: st.DataObject,
) -> None:
    whole = find_conflicts(strategy, one, found)
    assert find_conflicts(strategy, one, data.draw(st.permutations(found))) == whole
    alone = [
        c
        for each in sorted(found, key=lambda o: o.time)
        for c in find_conflicts(strategy, one, [each])
    ]
    assert alone == whole
    for conflict in whole:
        assert set(conflict.file_groups) <= set(one.group_effects)


@given(mines(), others(undo=False))
def test_bucket_strategy_finds_all_conflicts_by_file_id(
    one: PublishingInstant, theirs: ConcurrentInstant
) -> None:
    assert not find_conflicts(SIMPLE, one, [theirs]) or find_conflicts(BUCKET, one, [theirs])


@given(mines(), others(completed=True))
def test_strategies_differ_only_for_pending_instants(
    one: PublishingInstant, theirs: ConcurrentInstant
) -> None:
    assert find_conflicts(SIMPLE, one, [theirs]) == find_conflicts(PREFER, one, [theirs])


@given(strategies, mines(), mines(), times)
def test_second_of_two_conflicting_writes_fails(
    strategy: ConflictStrategy, one: PublishingInstant, two: PublishingInstant, time: InstantTime
) -> None:
    """Of two that may not both be there, the later one to complete finds out, whichever it is.

    The exception: what takes a group away may come after its compaction, not before it.
    """
    two = replace(two, time=time)
    both = {COMPACTION, LOGS}
    for a, b in ((one, two), (two, one)):
        if a.kind in both and (
            b.kind is CLUSTERING or GroupEffect.REPLACE in b.group_effects.values()
        ):
            return
    found = bool(find_conflicts(strategy, one, [as_other(two)]))
    assert found == bool(find_conflicts(strategy, two, [as_other(one)]))


@given(strategies, mines(), others())
def test_plans_that_are_not_read_cannot_conflict(
    strategy: ConflictStrategy, one: PublishingInstant, theirs: ConcurrentInstant
) -> None:
    if theirs.instant.is_pending and not could_conflict(strategy, one, theirs.instant, theirs.kind):
        within = {g: how for g, how in theirs.group_effects.items() if g in one.group_effects}
        assert not find_conflicts(strategy, one, [replace(theirs, group_effects=within)])


# -- the same on real files -------------------------------------------------------------------


def ours(table: HandMade) -> dict[str, int]:
    """What hoodoo reads."""
    rows = hoodoo.open_table(table.ref.uri).to_arrow(columns=["id", "v"]).to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["v"] for row in rows}


def values(table: HandMade) -> dict[str, int]:
    """What hoodoo and the hudi wheel read."""
    theirs = wheel_rows(table.ref.uri.removeprefix("file://"))
    found = ours(table)
    assert {row["id"]: row["v"] for row in theirs} == found
    return found


def with_logs(place: Path) -> HandMade:
    """A file group with a base file and two log files."""
    table = HandMade(place / "t")
    table.commit(at(1), at(2), table.base(group(1), at(1), {"a": 1, "b": 1, "c": 1}))
    table.commit(at(3), at(4), table.log(group(1), at(3), {"a": 2, "b": 2}))
    table.commit(at(5), at(6), table.log(group(1), at(5), {"b": 3}))
    return table


BEFORE, AFTER = {"a": 2, "b": 3, "c": 1}, {"a": 4, "b": 3, "c": 1}


def write(table: HandMade, what: str, time: InstantTime, ended: InstantTime) -> CommitMetadata:
    """A write of a=4 that was planned on the three commits."""
    if what == "write, appends":
        stat = table.log(group(1), time, {"a": 4})
    else:
        stat = table.base(group(1), time, AFTER, after=at(1))
    table.commit(time, ended, stat)
    return commit_metadata(stat)


def compact(table: HandMade, time: InstantTime, ended: InstantTime) -> CommitMetadata:
    stat = table.base(group(1), time, BEFORE, after=at(1))
    table.commit(time, ended, stat, action=Action.COMPACTION, operation="COMPACT")
    return commit_metadata(stat, operation="COMPACT")


def compact_logs(table: HandMade, time: InstantTime, ended: InstantTime) -> CommitMetadata:
    stat = table.log(group(1), time, {"a": 2, "b": 3}, compacts=(at(3), at(5)))
    table.commit(time, ended, stat, action=Action.LOG_COMPACTION, operation="LOG_COMPACT")
    return commit_metadata(stat, operation="LOG_COMPACT")


@pytest.mark.parametrize("order", ["write first", "service first"])
@pytest.mark.parametrize("write_time", [at(10), at(30)])
@pytest.mark.parametrize("what", ["write, appends", "write, rewrites"])
@pytest.mark.parametrize("service", [compact, compact_logs])
def test_rules_find_a_conflict_exactly_where_a_write_would_be_lost(
    tmp_path: Path, service, what: str, write_time: InstantTime, order: str
) -> None:
    """A write and a service requested at 20, both planned on the same three commits."""
    table = with_logs(tmp_path)
    ends = [at(40), at(41)] if order == "write first" else [at(41), at(40)]
    written = write(table, what, write_time, ends[0])
    served = service(table, at(20), ends[1])
    a = PublishingInstant.of(Instant(write_time, Action.DELTA_COMMIT, State.INFLIGHT), written)
    action = Action.COMPACTION if service is compact else Action.LOG_COMPACTION
    b = PublishingInstant.of(Instant(at(20), action, State.INFLIGHT), served)
    assert (a.kind, b.kind) == (INGESTION, COMPACTION if service is compact else LOGS)
    second, first = (b, a) if order == "write first" else (a, b)
    read = values if service is compact else ours  # the wheel drops logs that stand for none here
    is_lost = read(table) != AFTER
    if service is compact_logs:  # readers that do not know its header
        copy = copy_without_headers(tmp_path / "t", tmp_path / "copy")
        rows = hoodoo.open_table(str(copy)).to_arrow(columns=["id", "v"]).to_pylist()
        is_lost |= {row["id"]: row["v"] for row in rows} != AFTER
    met = find_conflicts(SIMPLE, second, [as_other(first)])
    met += find_conflicts(SIMPLE, first, [as_other(second, pending=True)])
    assert bool(met) == is_lost


@pytest.mark.parametrize("time", [at(10), at(30)])
def test_compactions_conflict_exactly_where_old_logs_would_return(
    tmp_path: Path, time: InstantTime
) -> None:
    """A log compaction at `time`, and a compaction at 20, which knows one log file more than 10."""
    table = HandMade(tmp_path / "t")
    table.commit(at(1), at(2), table.base(group(1), at(1), {"a": 1}))
    table.commit(at(3), at(4), table.log(group(1), at(3), {"a": 2}))
    table.commit(at(5), at(6), table.log(group(1), at(5), {"a": 3}))
    table.commit(at(11), at(12), table.log(group(1), at(11), {"a": 4}))
    stat = table.base(group(1), at(20), {"a": 4}, after=at(1))
    table.commit(at(20), at(41), stat, action=Action.COMPACTION, operation="COMPACT")
    known = {"a": 3} if time < at(20) else {"a": 4}
    sources = tuple(at(n) for n in (3, 5, 11) if at(n) < time)
    log = table.log(group(1), time, known, compacts=sources)
    table.commit(time, at(40), log, action=Action.LOG_COMPACTION, operation="LOG_COMPACT")
    logs = mine("log compaction", group(1), time=time)
    whole = mine("compaction", group(1), time=at(20))
    is_wrong = ours(table) != {"a": 4}
    assert is_wrong == (time < at(20))
    assert bool(find_conflicts(SIMPLE, whole, [as_other(logs)])) == is_wrong
    assert bool(find_conflicts(SIMPLE, logs, [as_other(whole)])) == is_wrong


# -- what commits say of themselves -----------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "operation", "compacted", "kind"),
    [
        (Action.COMMIT, "UPSERT", False, INGESTION),
        (Action.REPLACE_COMMIT, "INSERT_OVERWRITE", False, INGESTION),
        (Action.REPLACE_COMMIT, "CLUSTER", False, CLUSTERING),
        (Action.COMMIT, "COMPACT", True, COMPACTION),
        (Action.COMPACTION, "COMPACT", True, COMPACTION),
        (Action.DELTA_COMMIT, "LOG_COMPACT", True, LOGS),
        (Action.COMMIT, None, True, COMPACTION),
        (Action.DELTA_COMMIT, None, True, LOGS),
        (Action.COMMIT, None, None, INGESTION),
        (Action.COMMIT, "SOMETHING_NEW", False, INGESTION),
    ],
)
def test_commit_is_classified_by_action_and_operation(action, operation, compacted, kind) -> None:
    metadata = CommitMetadata(operation_type=operation, compacted=compacted)
    assert classify_commit(action, metadata) is kind


def test_touches_of_a_commit_by_its_write_stats() -> None:
    def stat(number: int, **fields: object) -> WriteStat:
        where = group(number)
        return WriteStat(file_id=where.file_id, partition_path=where.partition, **fields)

    metadata = commit_metadata(
        stat(1),
        stat(2, prev_commit=at(1)),
        stat(3, prev_commit=at(1), log_version=1),
        stat(4, prev_commit=at(1)),
        stat(4, prev_commit=at(1), log_version=1),
        WriteStat(partition_path=PartitionPath("city=sf")),
        replaces=(group(5), group(5, "la")),
        operation=OperationType.INSERT_OVERWRITE,
    )
    assert collect_group_effects(metadata) == {
        group(1): GroupEffect.CREATE,
        group(2): GroupEffect.REWRITE,
        group(3): GroupEffect.APPEND,
        group(4): GroupEffect.REWRITE,
        group(5): GroupEffect.REPLACE,
        group(5, "la"): GroupEffect.REPLACE,
    }


# -- telling the user -------------------------------------------------------------------------


def test_error_names_instants_owners_and_file_groups() -> None:
    where = [group(n) for n in range(1, 6)]
    told = [
        replace(other("write", *where, time=at(60)), owner="nightly on node7, process 4711"),
        other("clustering", where[0], time=at(61)),
    ]
    conflicts = find_conflicts(SIMPLE, mine("write, appends", *where), told)
    error = make_conflict_error(
        mine("write, appends", *where), conflicts, {at(61): "console on node1"}
    )
    named = ", ".join(str(g) for g in where[:3])
    assert str(error) == (
        f"write {at(50)} conflicts with deltacommit {at(60)} "
        f"(WRITE by nightly on node7, process 4711): it writes to {named} and 2 more; "
        f"replacecommit {at(61)} (CLUSTERING by console on node1): it replaces {where[0]}. "
        "Nothing of it is visible: try again, or have that done by "
        "hoodie.write.num.retries.on.conflict.failures"
    )
    assert error.instant == at(50)
    assert error.conflicting_instants == (at(60), at(61))
    assert error.file_groups == tuple(map(str, where))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_error_says_what_to_do() -> None:
    def said(one: PublishingInstant, theirs: ConcurrentInstant) -> str:
        return str(make_conflict_error(one, find_conflicts(SIMPLE, one, [theirs])))

    pending = other("clustering", group(1), pending=True)
    assert said(mine("write, appends", group(1)), pending).endswith(
        "run the pending plan, or roll it back, and try again"
    )
    done = other("write", group(1))
    assert said(mine("clustering", group(1)), done).endswith("plan it anew")
    undone = other("restore")
    text = said(mine("write, appends", group(1)), undone)
    assert f"restore {at(60)} (RESTORE): commits that this one was planned on are" in text


def test_error_counts_conflicts_beyond_the_first_three() -> None:
    many = [Conflict(other("restore", time=at(60 + n)), "gone") for n in range(9)]
    error = make_conflict_error(mine("compaction"), many)
    assert str(error).count("gone") == 3
    assert "; and 6 more. " in str(error)
    assert len(error.conflicting_instants) == 9


def test_write_conflict_can_be_made_from_text_alone() -> None:
    for kind in (WriteConflict, EarlyConflict):
        error = kind("text")
        assert isinstance(error, CommitFailed)
        assert (error.instant, error.conflicting_instants, error.file_groups) == (None, (), ())
        assert str(pickle.loads(pickle.dumps(error))) == "text"
