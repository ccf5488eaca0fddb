"""Handles that run more than once: one attempt counts, and all of them say the same."""

from __future__ import annotations

import pytest
from support.attempts import Driver, RepeatingEngine, fleet
from support.writer_machines import EXPIRY_S, Fleet, rows

from hoodoo.api.table import Table
from hoodoo.errors import CommitFailed, OutcomeUnknown
from hoodoo.format.markers import (
    CompletionMarker,
    Digest,
    FinalizeMarker,
    decode_final,
    encode_final,
)
from hoodoo.model import paths
from hoodoo.write.files.exactly_once import load_completions
from hoodoo.write.files.finalize import finalize, read_final

TOLD = {"hoodie.write.fail.on.finalize.marker": False}


def own(world: Fleet, directory: str) -> list[str]:
    return [entry.path for entry in world.store.list(directory, recursive=True)]


@pytest.mark.parametrize("digest", [None, Digest(1, 7)])
def test_the_second_attempt_returns_what_the_first_one_wrote(digest: Digest | None) -> None:
    world = fleet()
    driver, known = Driver.begin(world), world.data_files()
    first = driver.attempt(world.machine("e1"), 1, digest=digest)
    second = driver.attempt(world.machine("e2"), 2, digest=digest)
    assert first == second
    assert [*known, first[0].path] == sorted(world.data_files())
    (done,) = load_completions(world.machine("look").ref.env, driver.begun.time, 1).values()
    assert done == CompletionMarker(f"0-{first[0].file_id}", digest, tuple(first))


def test_other_rows_fail_the_write() -> None:
    world = fleet()
    driver = Driver.begin(world)
    driver.attempt(world.machine("e1"), 1, digest=Digest(2, 7))
    known = world.data_files()
    for digest in (Digest(2, 8), Digest(3, 7)):
        with pytest.raises(CommitFailed, match="not deterministic"):
            driver.attempt(world.machine("e2"), 2, digest=digest)
    assert world.data_files() == known


def test_other_rows_are_found_by_the_loser_of_a_race_too() -> None:
    world = fleet()
    driver = Driver.begin(world)
    raced: list[object] = []

    def before(verb: str, path: str) -> None:
        if verb == "open_write" and not raced:
            raced.append(driver.attempt(world.machine("e1"), 1, digest=Digest(1, 7)))

    with pytest.raises(CommitFailed, match="not deterministic"):
        driver.attempt(world.machine("e2"), 2, digest=Digest(1, 8), before=before)
    assert len(world.data_files()) == 2, "the loser's file is gone"


def test_an_attempt_after_finalize_is_told_if_the_setting_says_so() -> None:
    world = fleet()
    driver = Driver.begin(world)
    stats = driver.attempt(world.machine("e1"), 1)
    driver.finalize(stats)
    assert driver.attempt(world.machine("e2", **TOLD), 2) == stats
    driver.commit(stats)
    assert driver.attempt(world.machine("e3", **TOLD), 3) == stats
    with pytest.raises(CommitFailed, match="too late"):
        driver.attempt(world.machine("e4"), 4)


def test_an_attempt_amid_finalize_fails_whatever_the_setting_says() -> None:
    world = fleet()
    driver = Driver.begin(world)
    world.store.create(
        paths.finalize_marker_path(driver.begun.time), encode_final(FinalizeMarker(epoch=1))
    )
    with pytest.raises(CommitFailed, match="too late"):
        driver.attempt(world.machine("e1", **TOLD), 1)


def test_a_later_epoch_goes_on_where_an_earlier_one_was_finalized() -> None:
    world = fleet()
    driver = Driver.begin(world)
    path = paths.finalize_marker_path(driver.begun.time)
    world.store.create(path, encode_final(FinalizeMarker(epoch=0)))
    stats = driver.attempt(world.machine("e1"), 1)
    driver.finalize(stats)
    assert decode_final(world.store.read(path)) == FinalizeMarker(1, tuple(stats))
    with pytest.raises(CommitFailed, match="someone else"):
        driver.finalize(stats)


def test_a_later_epoch_fences_an_earlier_one_off() -> None:
    world = fleet()
    driver, known = Driver.begin(world), world.data_files()
    world.store.create(
        paths.finalize_marker_path(driver.begun.time), encode_final(FinalizeMarker(epoch=2))
    )
    with pytest.raises(CommitFailed, match="too late"):
        driver.attempt(world.machine("e1", **TOLD), 1)
    assert world.data_files() == known


@pytest.mark.parametrize("landed", [True, False])
def test_a_completion_marker_whose_answer_is_lost_for_good(landed: bool) -> None:
    world = fleet()
    driver, lost = Driver.begin(world), world.machine("e1")
    lost.storage.lose("create", "/completion/", landed=landed)
    lost.storage.lose("create", "/completion/", landed=False, times=100)
    with pytest.raises(OutcomeUnknown):
        driver.attempt(lost, 1)
    assert len(world.data_files()) == 2, "the marker may name the file"
    stats = driver.attempt(world.machine("e2"), 2)
    assert str(stats[0].path).count("-1-1_" if landed else "-1-2_")
    driver.finalize(stats)
    assert len(world.data_files()) == 2
    driver.commit(stats)
    assert world.machine("look").rows() == {"k1": 2}


def test_finalize_keeps_what_it_returns() -> None:
    world = fleet()
    driver = Driver.begin(world)
    stats = driver.attempt(world.machine("e1"), 1)
    env = driver.machine.ref.env
    assert finalize(env, driver.begun.time, stats, repeats=True) == stats
    assert read_final(env, driver.begun.time) == FinalizeMarker(1, tuple(stats))


def test_a_write_on_an_engine_that_repeats_leaves_what_the_sweep_needs() -> None:
    world = fleet()
    north = world.machine("north")
    table = Table(north.ref, RepeatingEngine(threads=1))
    table.upsert(rows(k1=2))
    table.insert(rows("b", k2=3))
    assert not own(world, paths.COMPLETIONS)
    assert not own(world, paths.MARKERS)
    assert len(own(world, paths.FINALS)) == 2
    table.recover()
    assert len(own(world, paths.FINALS)) == 2, "too early"
    for left in (2, 0):
        world.world.pass_time(2 * EXPIRY_S)
        table.recover()
        assert len(own(world, paths.FINALS)) == left
    assert north.rows() == {"k1": 2, "k2": 3}


@pytest.mark.parametrize("partition_by", ["part", None])
def test_the_sweep_takes_a_file_that_appears_after_the_commit(partition_by: str | None) -> None:
    world = fleet(partition_by)
    driver = Driver.begin(world)
    stats = driver.attempt(world.machine("e1"), 1)
    driver.finalize(stats)
    driver.commit(stats)
    kept = str(stats[0].path)
    table = world.machine("medic").table
    for attempt in (2, 3):
        stray = kept.replace("_0-1-1_", f"_0-1-{attempt}_")
        world.store.create(stray, world.store.read(kept))
        world.world.pass_time(2 * EXPIRY_S)
        assert table.recover().swept.data_files == (stray,)
    assert kept in world.data_files()
    assert world.machine("look").rows() == {"k1": 2}


def test_local_writes_pay_nothing() -> None:
    world = fleet()
    world.machine("north").table.upsert(rows(k1=2))
    assert not own(world, paths.COMPLETIONS)
    assert not own(world, paths.FINALS)
