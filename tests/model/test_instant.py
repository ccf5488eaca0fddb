"""Instant times, and what may become of an instant."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import InputError
from hoodoo.model.instant import (
    LEGAL_TRANSITIONS,
    Action,
    Instant,
    InstantTime,
    State,
    from_wall_ms,
    is_instant_time,
    next_time,
    parse_moment,
    to_wall_ms,
)

FIRST_MS = -62_135_596_800_000  # 0001-01-01
LAST_MS = 253_402_300_799_999  # 9999-12-31
MOMENTS = st.integers(FIRST_MS, LAST_MS)


def in_utc(epoch_ms: int) -> int:
    return epoch_ms


@given(MOMENTS)
def test_every_moment_of_the_calendar_round_trips(wall_ms: int) -> None:
    time = from_wall_ms(wall_ms)
    assert len(time) == 17
    assert is_instant_time(time)
    assert to_wall_ms(time) == wall_ms


@given(MOMENTS, MOMENTS)
def test_times_compare_as_text(one: int, other: int) -> None:
    assert (from_wall_ms(one) < from_wall_ms(other)) == (one < other)


def test_known_times() -> None:
    assert from_wall_ms(0) == "19700101000000000"
    assert from_wall_ms(1772922383352) == "20260307222623352"
    assert to_wall_ms(InstantTime("20260307222623")) == 1772922383999


@pytest.mark.parametrize("wall_ms", [FIRST_MS - 1, LAST_MS + 1, 10**18, -(10**18)])
def test_moments_beyond_the_calendar_are_refused(wall_ms: int) -> None:
    with pytest.raises(InputError):
        from_wall_ms(wall_ms)


@pytest.mark.parametrize(
    "text", ["", "2024", "2024010100000000x", "00000000000000000", "20241301000000000", "٣" * 17]
)
def test_text_that_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        to_wall_ms(InstantTime(text))


def test_instant_times_are_recognised() -> None:
    assert is_instant_time("00000000000000000")  # the metadata table's first
    assert is_instant_time("20240101000000")
    for text in ("", "1" * 16, "1" * 18, "1" * 16 + "a", "1" * 17 + "\n", "٣" * 17, "-" + "1" * 16):
        assert not is_instant_time(text)


@given(MOMENTS, MOMENTS)
def test_next_time_is_later_and_not_in_the_past(now: int, after: int) -> None:
    if after >= LAST_MS:
        return
    time = next_time(now, after=from_wall_ms(after))
    assert time > from_wall_ms(after)
    assert time >= from_wall_ms(now)
    assert to_wall_ms(time) == max(now, after + 1)
    assert next_time(now, after=None) == from_wall_ms(now)


def test_there_is_no_time_after_the_last() -> None:
    with pytest.raises(InputError):
        next_time(0, after=from_wall_ms(LAST_MS))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("20260307222623352", "20260307222623352"),
        ("20260307222623", "20260307222623"),
        (" 2026-03-07 ", "20260307000000000"),
        ("2026-03-07 22:26:23.352", "20260307222623352"),
        ("2026-03-07T22:26:23.3529Z", "20260307222623352"),
        ("2026-03-07T22:26:23+02:00", "20260307202623000"),
        ("0999-01-01", "09990101000000000"),
    ],
)
def test_moments_typed_by_users_are_parsed(text: str, time: str) -> None:
    assert parse_moment(text, wall_ms=in_utc) == time


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-13-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00", "1e9"]
)
def test_bad_moments_typed_by_users_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_moment(text, wall_ms=in_utc)


@given(st.datetimes(timezones=st.just(UTC)))
def test_iso_times_are_cut_to_milliseconds(moment: datetime) -> None:
    expected = f"{moment.year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"
    assert parse_moment(moment.isoformat(), wall_ms=in_utc) == expected


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("20260307222623352", "20260307222623352"),
        ("2026-03-07 22:26:23.352", "20260307222623352"),
        ("2026-03-07T22:26:23Z", "20260308072623000"),
        ("2026-03-07T22:26:23+09:00", "20260307222623000"),
        ("2026-03-07", "20260307000000000"),
    ],
)
def test_only_a_time_with_an_offset_is_translated_to_the_zone(text: str, time: str) -> None:
    assert parse_moment(text, wall_ms=lambda epoch_ms: epoch_ms + 9 * 3_600_000) == time


def test_actions_complete_as_others() -> None:
    changed = {a.value: a.completed_as.value for a in Action if a.completed_as is not a}
    assert changed == {
        "compaction": "commit",
        "logcompaction": "deltacommit",
        "clustering": "replacecommit",
    }
    assert {a.value for a in Action if not a.writes_data} == {
        "clean",
        "rollback",
        "restore",
        "savepoint",
        "indexing",
        "schemacommit",
    }


def test_states_in_order() -> None:
    order = sorted(State, key=lambda state: state.rank)
    assert order == [State.REQUESTED, State.INFLIGHT, State.ABORTED, State.COMPLETED]
    assert [state for state in State if state.is_pending] == [State.REQUESTED, State.INFLIGHT]


def test_nothing_leaves_a_final_state() -> None:
    for before, after in LEGAL_TRANSITIONS:
        assert before not in (State.COMPLETED, State.ABORTED)
        assert before is not after
    assert (State.REQUESTED, State.COMPLETED) not in LEGAL_TRANSITIONS


def test_instant() -> None:
    time, later = InstantTime("20260307222623352"), InstantTime("20260307222624000")
    done = Instant(time, Action.COMMIT, State.COMPLETED, later)
    old = Instant(time, Action.COMMIT, State.COMPLETED)
    assert (done.completion_or_requested_time, old.completion_or_requested_time) == (later, time)
    assert done.is_completed
    assert not done.is_pending
    assert str(done) == "20260307222623352.commit.completed"
