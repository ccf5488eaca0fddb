"""Upgrades: what is refused, and what becomes of a timeline, an archive and properties."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.dead_writes import make_older
from support.old_tables import Story, long_story, values

import hoodoo
from hoodoo.config.table import table_properties
from hoodoo.errors import TableChanged, TimelineError, UnsupportedFeature, WriterAlive
from hoodoo.format.log.blocks import Block, encode_blocks, rollback_block
from hoodoo.inspect.doctor import compare_listings
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.services.upgrade.plan import upgrade_properties
from hoodoo.services.upgrade.timeline import OldFile, assign_completions
from hoodoo.services.upgrade.upgrade import upgrade
from hoodoo.table.history import load_history
from hoodoo.table.ref import open_ref
from hoodoo_testing.tables.old_versions import make_version_6, make_version_8, name_metadata_table

MODELS = "org.apache.hudi.common.model."
LOGS = {"hoodie.parquet.small.file.limit": 0, "hoodie.compact.inline": False}
T = InstantTime("20990101000000000")


def make_old(story: Story, version: int = 6, archived: int = 0) -> hoodoo.Table:
    storage = open_ref(str(story.place)).env.storage
    if version == 6:
        make_version_6(storage, archive_count=archived)
    else:
        make_version_8(storage)
    story.table = hoodoo.open_table(story.place)
    return story.table


def put(story: Story, name: str, data: bytes = b"", *, is_old: bool = True) -> Path:
    file = story.place / ".hoodie" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    if is_old:
        make_older(file, 10_000)
    return file


def set_properties(story: Story, *lines: str) -> None:
    file = story.place / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text() + "".join(f"{line}\n" for line in lines))
    story.table = hoodoo.open_table(story.place)


@pytest.fixture(params=["cow", "mor"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Story:
    return long_story(tmp_path / "table", request.param, commits=4, has_metadata=True, **LOGS)


@pytest.mark.parametrize("version", [6, 8])
def test_reads_and_writes_go_on(story: Story, version: int) -> None:
    make_old(story, version)
    story.check(kept=4)
    story.table.upgrade()
    story.check(kept=4)
    story.upsert(9, "a", "z")
    story.check(kept=5)


def test_archived_instants_go_into_the_history(story: Story) -> None:
    make_old(story, archived=2)
    before = load_history(story.table._ref.env, story.table._ref.properties.timeline_paths)
    assert [i.requested_time for i in before] == story.times[:2]
    told = story.table.timeline(include_archived=True)
    story.table.upgrade()
    after = load_history(story.table._ref.env, story.table._ref.properties.timeline_paths)
    assert [(i.requested_time, i.metadata) for i in after] == [
        (i.requested_time, i.metadata) for i in before
    ]
    assert all(i.requested_time < (i.completion_time or "") < story.times[2] for i in after)
    assert len(story.table.timeline(include_archived=True)) == len(told)
    changed = values(story.table.changes(since=story.times[0]))
    assert changed == {key: v for key, v in story.rows.items() if v > 0}


def test_dry_run_changes_nothing(story: Story) -> None:
    make_old(story)
    files = {path: path.stat().st_mtime_ns for path in story.place.rglob("*") if path.is_file()}
    told = story.table.upgrade(dry_run=True)
    assert (told.from_version, told.is_done, told.instants) == (6, False, 4)
    assert {change.key for change in told.changes} >= {"hoodie.table.version"}
    assert files == {
        path: path.stat().st_mtime_ns for path in story.place.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("version", [6, 8])
def test_the_metadata_table_is_built_anew(story: Story, version: int) -> None:
    make_old(story, version)
    storage = story.table._ref.env.storage
    expected = ["column_stats", "files", "partition_stats"]
    if version == 6:
        expected = ["bloom_filters", "column_stats", "files", "partition_stats", "record_index"]
        name_metadata_table(storage, *expected, "expr_index_v")
        story.table = hoodoo.open_table(story.place)
    done = story.table.upgrade()
    assert list(done.rebuilt) == expected
    assert done.dropped == (("expr_index_v",) if version == 6 else ())
    assert story.table.properties["hoodie.table.metadata.partitions"] == ",".join(done.rebuilt)
    assert not compare_listings(story.table._ref)
    story.check(kept=4)
    story.upsert(9, "a", "z")
    story.check(kept=5)
    assert not compare_listings(story.open()._ref)


def test_columns_with_statistics_stay_the_same(story: Story) -> None:
    make_old(story, 8)
    file = story.place / ".hoodie" / ".index_defs" / "index.json"
    definitions = json.loads(file.read_text())
    every = definitions["indexDefinitions"]
    every["column_stats"]["sourceFields"] = ["v"]
    every["expr_index_v"] = {**every["column_stats"], "indexName": "expr_index_v"}
    file.write_text(json.dumps(definitions))
    story.table.upgrade()
    (found,) = json.loads(file.read_text())["indexDefinitions"].values()
    assert (found["indexName"], found["sourceFields"]) == ("column_stats", ["v"])


def test_no_metadata_table_is_built_where_it_is_not_wanted(story: Story) -> None:
    make_old(story, 8)
    story.table = story.open(**{"hoodie.metadata.enable": False})
    done = story.table.upgrade()
    assert (done.rebuilt, len(done.dropped)) == ((), 3)
    assert "hoodie.table.metadata.partitions" not in story.table.properties
    assert not (story.place / ".hoodie" / "metadata" / ".hoodie").exists()
    story.check(kept=4)


def test_a_table_without_a_metadata_table_gets_none(story: Story) -> None:
    make_old(story, 6)
    assert story.table.upgrade().rebuilt == ()
    assert "hoodie.table.metadata.partitions" not in story.table.properties


def test_two_processes_at_once(story: Story) -> None:
    make_old(story)
    program = "from hoodoo.cli.main import run; run()"
    command = [sys.executable, "-c", program, "upgrade", str(story.place), "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    told = [json.loads(each.communicate(timeout=60)[0]) for each in both]
    assert sorted(each["from_version"] for each in told) == [6, 9]
    story.table = hoodoo.open_table(story.place)
    story.check(kept=4)


@pytest.mark.parametrize("version", [6, 8])
def test_a_writer_at_work_is_refused(story: Story, version: int) -> None:
    make_old(story, version)
    folder = "" if version == 6 else "timeline/"
    put(story, f"{folder}{T}.commit.requested", is_old=False)
    put(story, f".heartbeat/{T}", is_old=False)
    with pytest.raises(WriterAlive, match=T):
        story.table.upgrade()
    story.check(kept=4)


def test_a_writer_that_ignores_the_lock_is_noticed(story: Story) -> None:
    make_old(story)

    def write_meanwhile(done: int, total: int) -> None:
        if done == total:
            put(story, f"{T}.commit.requested")

    with pytest.raises(TableChanged, match="does not use its lock"):
        upgrade(story.table._ref, progress=write_meanwhile)
    story.check(kept=4)
    assert story.table.upgrade().is_done
    story.check(kept=4)


def test_a_dead_write_stays_pending_and_is_rolled_back(story: Story) -> None:
    make_old(story)
    put(story, f"{T}.commit.requested")
    put(story, f"{T}.inflight")
    assert story.table.upgrade().pending == (f"{T}.commit.inflight",)
    story.check(kept=4)
    story.age()  # its files were written anew
    (rolled_back,) = story.table.recover().rolled_back
    assert rolled_back.instant == T
    story.check(kept=4)


def test_unfinished_rows_in_logs_of_others_are_refused(tmp_path: Path) -> None:
    story = long_story(tmp_path / "table", "mor", commits=3, **LOGS)
    make_old(story)
    put(story, f"{T}.deltacommit.requested")
    put(story, f"{T}.deltacommit.inflight")
    log = next(story.place.rglob(".*.log.*"))
    unfinished: Block = rollback_block(instant_time=T, target=T)
    log.write_bytes(log.read_bytes() + encode_blocks([unfinished]))
    with pytest.raises(TimelineError, match="roll it back first"):
        story.table.upgrade()


def test_a_compaction_with_logs_on_top_is_refused(tmp_path: Path) -> None:
    story = long_story(tmp_path / "table", "mor", commits=3, **LOGS)
    make_old(story)
    log = next(story.place.rglob(".*.log.*"))
    put(story, f"{T}.compaction.requested", b"a plan")
    file_id = log.name[1:].partition("_")[0]
    (log.parent / f".{file_id}_{T}.log.1_0-1-0").write_bytes(b"")
    with pytest.raises(TimelineError, match="run it first"):
        story.table.upgrade()


@pytest.mark.parametrize("action", ["rollback", "restore", "indexing"])
def test_plans_that_version_9_cannot_finish_are_refused(story: Story, action: str) -> None:
    make_old(story)
    put(story, f"{T}.{action}.requested", b"a plan")
    with pytest.raises(TimelineError, match="first"):
        story.table.upgrade()


def test_a_timeline_that_another_engine_began_to_move_is_refused(story: Story) -> None:
    make_old(story)
    moved = put(story, f"timeline/{story.times[0]}_{T}.commit", b"{}")
    with pytest.raises(TimelineError, match="Apache Hudi"):
        story.table.upgrade()
    assert moved.exists()


def test_features_are_refused_by_name(story: Story) -> None:
    make_old(story)
    set_properties(story, "hoodie.bootstrap.base.path=/somewhere")
    with pytest.raises(UnsupportedFeature, match=r"hoodie\.bootstrap\.base\.path"):
        story.table.upgrade()


@pytest.mark.parametrize(
    ("version", "advice"), [(5, "0.14 or 0.15"), (7, "with Apache Hudi"), (10, "newer")]
)
def test_other_versions_are_refused_with_advice(story: Story, version: int, advice: str) -> None:
    set_properties(story)
    file = story.place / ".hoodie" / "hoodie.properties"
    text = file.read_text().replace("hoodie.table.version=9", f"hoodie.table.version={version}")
    file.write_text(text)
    with pytest.raises(UnsupportedFeature, match=advice):
        hoodoo.upgrade_table(story.place)


def test_a_commit_in_the_log_file_of_another_is_not_taken_back(tmp_path: Path) -> None:
    story = long_story(tmp_path / "table", "mor", commits=3, **LOGS)
    make_old(story).upgrade()
    story.age()
    with pytest.raises(TimelineError, match="log file of several commits"):
        story.open().restore(story.times[0])
    story.check(kept=3)


# -- pure ----------------------------------------------------------------------------------------


def old(time: str, state: State, modified_ms: int) -> OldFile:
    return OldFile(Instant(InstantTime(time), Action.COMMIT, state), "", modified_ms, 0)


def complete(*instants: tuple[str, int]) -> list[str]:
    """The completion times of instants, each with the milliseconds that it took."""
    files = []
    for time, took_ms in instants:
        files += [old(time, State.REQUESTED, 5_000), old(time, State.COMPLETED, 5_000 + took_ms)]
    return list(assign_completions(files).values())


def test_completion_times_are_after_the_instant_and_before_the_next() -> None:
    first, second = "20240101000000000", "20240101000010000"
    assert complete((first, 1_500), (second, 20)) == ["20240101000001500", "20240101000010020"]
    assert complete((first, 60_000), (second, -5)) == ["20240101000000001", "20240101000010001"]
    assert complete((first, 3), ("20240101000000001", 3))[0] == first
    assert complete(("20240101000000", 0), ("20240101000001", 0)) == [
        "20240101000000999",
        "20240101000001999",
    ]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("OverwriteWithLatestAvroPayload", {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
        ("EventTimeAvroPayload", {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}),
        (
            "PartialUpdateAvroPayload",
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
        ),
        (
            "AWSDmsAvroPayload",
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.record.merge.property.hoodie.payload.delete.field": "Op",
                "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
            },
        ),
    ],
)
def test_payload_classes_become_modes(payload: str, expected: dict[str, str]) -> None:
    raw = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.precombine.field": "ts",
        "hoodie.compaction.payload.class": f"{MODELS}{payload}",
    }
    changes = upgrade_properties(table_properties(raw))
    assert {key: changes[key] for key in expected} == expected
    assert changes["hoodie.compaction.payload.class"] is None
    assert changes["hoodie.table.legacy.payload.class"] == f"{MODELS}{payload}"
    assert changes["hoodie.table.ordering.fields"] == "ts"
    assert changes["hoodie.table.precombine.field"] is None


def test_a_class_of_ones_own_stays() -> None:
    raw = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.compaction.payload.class": "com.example.Own",
    }
    changes = upgrade_properties(table_properties(raw))
    assert changes["hoodie.record.merge.mode"] == "CUSTOM"
    assert changes["hoodie.record.merge.strategy.id"] == "00000000-0000-0000-0000-000000000000"
    assert "hoodie.compaction.payload.class" not in changes
