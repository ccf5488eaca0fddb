"""What others did since: found for hoodoo's own and foreign instants, archived ones too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.archives import archive
from support.built_table import AVRO, HELD, HandMade, at, commit_metadata, group

from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instants, refuse_conflicts
from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffect,
    InstantKind,
    PublishingInstant,
)
from hoodoo.concurrency.transactions.transaction import load_txn
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import FormatError, WriteConflict
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model.commit import WRITER_KEY, WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import (
    ClusteringGroup,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    SliceInfo,
)
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import Timeline, read_commit

SIMPLE, PREFER = ConflictStrategy.SIMPLE, ConflictStrategy.PREFER_WRITER


def writer(how: GroupEffect = GroupEffect.APPEND, *where: FileGroupId) -> PublishingInstant:
    return PublishingInstant(at(50), InstantKind.INGESTION, dict.fromkeys(where or [group(1)], how))


def stat(where: FileGroupId, **fields: object) -> WriteStat:
    return WriteStat(file_id=where.file_id, partition_path=where.partition, **fields)


def compaction_plan(*where: FileGroupId) -> CompactionPlan:
    return CompactionPlan(
        operations=tuple(
            CompactionOperation(
                base_instant_time=at(1), file_id=each.file_id, partition_path=each.partition
            )
            for each in where
        )
    )


def clustering_plan(*where: FileGroupId) -> RequestedReplaceMetadata:
    slices = tuple(SliceInfo(file_id=w.file_id, partition_path=w.partition) for w in where)
    plan = ClusteringPlan(input_groups=(ClusteringGroup(slices=slices),))
    return RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=plan)


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    """A table with one commit."""
    made = HandMade(tmp_path / "t")
    made.commit(at(1), at(2), stat(group(1)), stat(group(2)))
    return made


def load(
    table: HandMade, planned_on: Timeline, mine: PublishingInstant | None = None, strategy=SIMPLE
) -> list[ConcurrentInstant]:
    return load_concurrent_instants(table.txn(), strategy, mine or writer(), planned_on)


def briefly(
    found: list[ConcurrentInstant],
) -> list[tuple[str, InstantKind, dict[FileGroupId, GroupEffect]]]:
    return [(other.time, other.kind, dict(other.group_effects)) for other in found]


def reads(
    table: HandMade, planned_on: Timeline, mine: PublishingInstant, strategy=SIMPLE
) -> list[str]:
    """Names of the files that are read to know the others."""
    storage = TracedStorage(table.ref.env.storage)
    txn = replace(table.txn(), env=Env(storage))
    load_concurrent_instants(txn, strategy, mine, planned_on)
    return [operation.path.rpartition("/")[2] for operation in storage.operations]


# -- completed ones ---------------------------------------------------------------------------


def test_no_reads_if_nobody_else_wrote(table: HandMade) -> None:
    planned_on = table.txn().timeline
    table.pending(at(50), Action.DELTA_COMMIT, commit_metadata(stat(group(1))))
    assert load(table, planned_on) == []
    assert reads(table, planned_on, writer()) == []


def test_others_are_ordered_by_completion_time(table: HandMade) -> None:
    """Also what was pending when the plan was made, and what has another clock."""
    table.pending(at(20), Action.DELTA_COMMIT, commit_metadata(stat(group(2))))
    planned_on = table.txn().timeline
    table.forget(at(20))
    table.commit(at(20), at(63), stat(group(2), log_version=1), **{WRITER_KEY: "nightly"})
    table.commit(at(60), at(62), replaces=(group(3),), action=Action.REPLACE_COMMIT)
    table.commit(at(0), at(59), stat(group(1), prev_commit=at(1)))
    found = load(table, planned_on)
    assert briefly(found) == [
        (at(0), InstantKind.INGESTION, {group(1): GroupEffect.REWRITE}),
        (at(60), InstantKind.INGESTION, {group(3): GroupEffect.REPLACE}),
        (at(20), InstantKind.INGESTION, {group(2): GroupEffect.APPEND}),
    ]
    assert [other.owner for other in found] == [None, None, "nightly"]
    assert [other.operation for other in found] == ["UPSERT"] * 3
    assert [other.schema for other in found] == [AVRO] * 3
    names = [f"{at(0)}_{at(59)}.deltacommit", f"{at(20)}_{at(63)}.deltacommit"]
    assert reads(table, planned_on, writer()) == [*names, f"{at(60)}_{at(62)}.replacecommit"]


def test_table_services_have_a_kind_and_no_schema(table: HandMade) -> None:
    planned_on = table.txn().timeline
    base = table.base(group(1), at(60), {"a": 1}, after=at(1))
    table.commit(at(60), at(61), base, action=Action.COMPACTION, operation="COMPACT")
    table.commit(
        at(62), at(63), replaces=(group(2),), action=Action.CLUSTERING, operation="CLUSTER"
    )
    found = load(table, planned_on)
    assert [(other.kind, other.schema) for other in found] == [
        (InstantKind.COMPACTION, None),
        (InstantKind.CLUSTERING, None),
    ]
    assert [file.path for file in found[0].data_files] == [base.path]


# -- pending ones -----------------------------------------------------------------------------


def test_pending_plans_are_read_only_if_a_rule_needs_them(table: HandMade) -> None:
    table.pending(at(30), Action.COMPACTION, compaction_plan(group(1)))
    table.pending(at(60), Action.COMPACTION, compaction_plan(group(2)))
    table.pending(at(61), Action.LOG_COMPACTION, compaction_plan(group(1)))
    table.pending(at(62), Action.CLUSTERING, clustering_plan(group(1), group(2)), started=True)
    table.pending(at(63), Action.DELTA_COMMIT, commit_metadata(stat(group(1))))
    now = table.txn().timeline
    clustering = (
        at(62),
        InstantKind.CLUSTERING,
        {group(1): GroupEffect.REPLACE, group(2): GroupEffect.REPLACE},
    )
    earlier = (at(30), InstantKind.COMPACTION, {group(1): GroupEffect.REWRITE})
    later = (at(60), InstantKind.COMPACTION, {group(2): GroupEffect.REWRITE})
    logs = (at(61), InstantKind.LOG_COMPACTION, {group(1): GroupEffect.REWRITE})
    assert briefly(load(table, now)) == [clustering]
    everything = [earlier, later, logs, clustering]
    assert briefly(load(table, now, writer(GroupEffect.REWRITE))) == everything
    assert briefly(load(table, now, writer(GroupEffect.REPLACE))) == everything
    assert briefly(load(table, now, strategy=PREFER)) == [clustering]
    assert briefly(load(table, now, writer(GroupEffect.REWRITE), PREFER)) == everything
    assert reads(table, now, writer()) == [f"{at(62)}.clustering.requested"]
    assert reads(table, now, writer(GroupEffect.CREATE), PREFER) == []


def test_a_clustering_sees_the_profiles_of_writes_in_progress(table: HandMade) -> None:
    mine = PublishingInstant(at(50), InstantKind.CLUSTERING, {group(1): GroupEffect.REPLACE})
    profile = commit_metadata(stat(group(1), num_update_writes=1), stat(FileGroupId("city=sf", "")))
    table.pending(at(60), Action.DELTA_COMMIT, profile)
    table.pending(at(61), Action.DELTA_COMMIT, None)
    now = table.txn().timeline
    assert briefly(load(table, now, mine)) == []
    found = load(table, now, mine, PREFER)
    assert briefly(found) == [
        (at(60), InstantKind.INGESTION, {group(1): GroupEffect.REWRITE}),
        (at(61), InstantKind.INGESTION, {}),
    ]
    assert [other.operation for other in found] == ["UPSERT", "write"]


def test_service_planned_by_another_sees_commits_since_its_request(table: HandMade) -> None:
    """Its plan was made on what was completed before it was requested."""
    table.commit(at(10), at(40), stat(group(1), prev_commit=at(1)))
    table.pending(at(30), Action.COMPACTION, compaction_plan(group(1)))
    table.commit(at(20), at(29), stat(group(2), prev_commit=at(1)))
    mine = PublishingInstant(at(30), InstantKind.COMPACTION, {group(1): GroupEffect.REWRITE})
    planned_on = table.txn().timeline.completed_by(mine.time)
    assert briefly(load(table, planned_on, mine)) == [
        (at(10), InstantKind.INGESTION, {group(1): GroupEffect.REWRITE})
    ]


# -- taken back -------------------------------------------------------------------------------


def test_restore_pending_or_completed_since_counts_as_undo(table: HandMade) -> None:
    table.pending(at(5), Action.RESTORE, RestorePlan())
    both = table.txn().timeline
    assert briefly(load(table, both)) == [(at(5), InstantKind.UNDO, {})]
    done = Timeline.of([*both, Instant(at(5), Action.RESTORE, State.COMPLETED, at(6))])
    now = replace(table.txn(), timeline=done)
    assert briefly(load_concurrent_instants(now, SIMPLE, writer(), both)) == [
        (at(5), InstantKind.UNDO, {})
    ]
    assert briefly(load_concurrent_instants(now, SIMPLE, writer(), done)) == []


def test_missing_commit_counts_as_undone(table: HandMade) -> None:
    table.commit(at(3), at(4), stat(group(1), prev_commit=at(1)))
    planned_on = table.txn().timeline
    table.forget(at(3))
    assert briefly(load(table, planned_on)) == [(at(3), InstantKind.UNDO, {})]
    table.pending(at(3), Action.DELTA_COMMIT, commit_metadata())
    assert briefly(load(table, planned_on)) == [(at(3), InstantKind.UNDO, {})]


def test_missing_pending_write_is_ignored(table: HandMade) -> None:
    table.pending(at(3), Action.DELTA_COMMIT, commit_metadata())
    planned_on = table.txn().timeline
    table.forget(at(3))
    assert load(table, planned_on) == []


# -- archived meanwhile -----------------------------------------------------------------------


def put_away(table: HandMade, *times: InstantTime, keep: bool = False) -> None:
    """Archive these commits, and leave their files if the archiver crashed."""
    ref = table.ref
    paths, timeline = ref.properties.timeline_paths, ref.load_timeline()
    instants = [timeline.find(time) for time in times]
    archive(
        Path(ref.uri.removeprefix("file://")),
        *(
            ArchivedInstant(
                requested_time=instant.requested_time,
                completion_time=instant.completion_time,
                action=instant.action,
                metadata=codec.encode(read_commit(ref.env, paths, instant)),
            )
            for instant in instants
        ),
    )
    if not keep:
        table.forget(*times)


def busy(table: HandMade) -> None:
    """What others did while a write was running: one commit that was pending, and two new ones."""
    table.forget(at(3))
    table.commit(at(3), at(60), stat(group(2), log_version=1))
    table.commit(at(61), at(62), stat(group(1), log_version=1))
    table.commit(at(63), at(64), stat(group(3)))


EXPECTED = [
    (at(3), InstantKind.INGESTION, {group(2): GroupEffect.APPEND}),
    (at(61), InstantKind.INGESTION, {group(1): GroupEffect.APPEND}),
    (at(63), InstantKind.INGESTION, {group(3): GroupEffect.CREATE}),
]


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_commits_archived_meanwhile_are_found_in_history(table: HandMade, gone: int) -> None:
    table.pending(at(3), Action.DELTA_COMMIT, commit_metadata())
    planned_on = table.txn().timeline
    busy(table)
    if gone:
        put_away(table, *[at(1), at(3), at(61)][:gone])
    assert briefly(load(table, planned_on)) == EXPECTED
    assert bool([name for name in reads(table, planned_on, writer()) if "manifest" in name]) == (
        gone > 0
    )


def test_half_archived_commits_are_counted_once(table: HandMade) -> None:
    table.pending(at(3), Action.DELTA_COMMIT, commit_metadata())
    planned_on = table.txn().timeline
    busy(table)
    put_away(table, at(1), at(3), at(61), keep=True)
    table.forget(at(1))
    assert briefly(load(table, planned_on)) == EXPECTED


def test_commits_archived_before_the_plan_are_not_new(table: HandMade) -> None:
    table.commit(at(3), at(4), stat(group(1), prev_commit=at(1)))
    table.commit(at(5), at(6), stat(group(1), prev_commit=at(3)))
    planned = table.txn().timeline
    planned_on = planned.filter(lambda instant: instant.requested_time != at(1))
    table.commit(at(60), at(61), stat(group(2)))
    put_away(table, at(1), at(3))
    assert briefly(load(table, planned_on)) == [
        (at(60), InstantKind.INGESTION, {group(2): GroupEffect.CREATE})
    ]


def test_commits_archived_since_an_empty_table_are_found(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t")
    assert reads(table, Timeline(), writer()) == []
    table.commit(at(60), at(61), stat(group(1)))
    table.commit(at(62), at(63), stat(group(2)))
    put_away(table, at(60))
    assert [other.time for other in load(table, Timeline())] == [at(60), at(62)]


def test_savepoints_stay_behind_when_others_are_archived(table: HandMade) -> None:
    savepoint = Instant(at(1), Action.SAVEPOINT, State.COMPLETED, at(3))
    planned_on = Timeline.of([*table.txn().timeline, savepoint])
    table.commit(at(60), at(61), stat(group(1), prev_commit=at(1)))
    table.commit(at(62), at(63), stat(group(2)))
    put_away(table, at(60))
    now = table.txn()
    now = replace(now, timeline=Timeline.of([*now.timeline, savepoint]))
    found = load_concurrent_instants(now, SIMPLE, writer(), planned_on)
    assert [other.time for other in found] == [at(60), at(62)]


def test_an_archived_commit_that_says_nothing_is_an_error(table: HandMade) -> None:
    planned_on = table.txn().timeline
    lost = ArchivedInstant(
        requested_time=at(60), completion_time=at(61), action=Action.DELTA_COMMIT
    )
    put_away(table, at(1))
    archive(Path(table.ref.uri.removeprefix("file://")), lost)
    with pytest.raises(FormatError, match=f"history, {at(60)}.deltacommit.completed"):
        load(table, planned_on)


# -- all of it --------------------------------------------------------------------------------


def test_conflict_error_names_owners(table: HandMade) -> None:
    planned_on = table.txn().timeline
    table.commit(at(60), at(61), stat(group(2), prev_commit=at(1)))
    asked: list[str] = []

    def owner_of(time: InstantTime) -> str | None:
        asked.append(time)
        return "nightly on node7"

    others = refuse_conflicts(table.txn(), SIMPLE, writer(), planned_on, owner_of)
    assert [other.time for other in others] == [at(60)]
    assert asked == []
    mine = writer(GroupEffect.APPEND, group(1), group(2))
    with pytest.raises(WriteConflict, match=r"UPSERT by nightly on node7\): it writes to") as info:
        refuse_conflicts(table.txn(), SIMPLE, mine, planned_on, owner_of)
    assert info.value.conflicting_instants == (at(60),)
    assert info.value.file_groups == (str(group(2)),)
    assert asked == [at(60)]


WRITTEN = [GroupEffect.CREATE]
OVERWRITTEN = [GroupEffect.CREATE, GroupEffect.REPLACE]


@pytest.mark.parametrize(
    ("name", "updated", "compacted"),
    [
        ("cow/v9_txns_simple_meta", [GroupEffect.REWRITE], []),
        (
            "mor-avro/v9_txns_simple_meta",
            [GroupEffect.APPEND],
            [(InstantKind.COMPACTION, [GroupEffect.REWRITE])],
        ),
    ],
)
def test_commits_of_apache_hudi_are_classified(unpack, name: str, updated, compacted) -> None:
    """All but the first commit of a table that Apache Hudi wrote."""
    ref = open_ref(str(unpack(name)))
    timeline = ref.load_timeline()
    txn = replace(load_txn(ref, HELD), timeline=timeline)
    planned_on = timeline.completed_by(timeline.commits.instants[0].completion_or_requested_time)
    found = load_concurrent_instants(txn, SIMPLE, writer(), planned_on)
    assert [(other.kind, sorted(set(other.group_effects.values()))) for other in found] == [
        *[(InstantKind.INGESTION, updated)] * 5,
        (InstantKind.INGESTION, WRITTEN),
        (InstantKind.INGESTION, OVERWRITTEN),
        *[(InstantKind.INGESTION, WRITTEN)] * 2,
        *compacted,
        (InstantKind.CLUSTERING, OVERWRITTEN),
        (InstantKind.INGESTION, WRITTEN),
    ]
    for other in found:
        metadata = read_commit(ref.env, ref.properties.timeline_paths, other.instant)
        assert set(other.group_effects) == metadata.file_groups() | metadata.replaced_file_groups()
        assert {file.path for file in other.data_files} == set(metadata.written_files())
        assert bool(other.schema) == (other.kind is InstantKind.INGESTION)
