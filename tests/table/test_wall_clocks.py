"""Moments and the readings of wall clocks, around the days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hand_clock import HandClock, World
from support.zones import time_zone

from hoodoo.model.instant import TimelineZone, from_wall_ms, next_time
from hoodoo.runtime.env import SystemClock
from hoodoo.table.timeline import moment_of, now_wall_ms, parse_moment, wall_ms

EPOCH = datetime(1970, 1, 1)
ZONES = (
    *("UTC", "America/New_York", "Asia/Tokyo", "Europe/Berlin"),
    "Australia/Lord_Howe",  # half an hour of summer time
    "Pacific/Apia",  # left out a whole day
)
EACH_ZONE = pytest.mark.parametrize("zone", ZONES)
CHANGES = (
    *("2026-03-08T07:00", "2026-11-01T06:00"),  # New York
    *("2026-03-29T01:00", "2026-10-25T01:00"),  # Berlin
    *("2026-04-04T15:00", "2026-10-03T15:30"),  # Lord Howe
    *("2011-12-30T10:00", "2026-01-01T00:00"),  # Apia; an ordinary day
)
LOCAL = TimelineZone.LOCAL


def ms(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(milliseconds=1)


NEAR_CHANGES = st.builds(
    lambda change, offset_ms: ms(datetime.fromisoformat(change)) + offset_ms,
    st.sampled_from(CHANGES),
    st.integers(-30 * 3_600_000, 30 * 3_600_000),
)
MOMENTS = NEAR_CHANGES | st.integers(ms(datetime(1950, 1, 1)), ms(datetime(2100, 1, 1)))


def reading_at(zone: str, epoch_ms: int) -> int:
    """What clocks of a zone show at a moment, by Python's own rules."""
    moment = EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    return ms(moment.astimezone(ZoneInfo(zone)))


def first_moment(zone: str, reading_ms: int) -> int:
    """When clocks of a zone first showed this, by Python's own rules."""
    reading = (EPOCH + timedelta(milliseconds=reading_ms)).replace(tzinfo=ZoneInfo(zone))
    return ms(reading.astimezone(UTC))


def clock_in(zone: str) -> HandClock:
    clock = World().machine()
    clock.zone = ZoneInfo(zone)
    return clock


@EACH_ZONE
@given(epoch_ms=MOMENTS)
def test_the_system_clock_knows_the_zone(zone: str, epoch_ms: int) -> None:
    with time_zone(zone):
        assert SystemClock().local_ms(epoch_ms) == reading_at(zone, epoch_ms)


@EACH_ZONE
@given(epoch_ms=MOMENTS)
def test_moments_round_trip(zone: str, epoch_ms: int) -> None:
    clock = clock_in(zone)
    time = from_wall_ms(wall_ms(clock, LOCAL, epoch_ms))
    back = moment_of(clock, LOCAL, time)
    assert from_wall_ms(wall_ms(clock, LOCAL, back)) == time
    assert back == first_moment(zone, reading_at(zone, epoch_ms))
    assert back <= epoch_ms
    utc = from_wall_ms(wall_ms(clock, TimelineZone.UTC, epoch_ms))
    assert utc == from_wall_ms(epoch_ms)
    assert moment_of(clock, TimelineZone.UTC, utc) == epoch_ms


@EACH_ZONE
@given(reading_ms=MOMENTS)
def test_every_reading_has_a_moment(zone: str, reading_ms: int) -> None:
    """Also one that no clock ever showed: a time drawn after another may be in a missing hour."""
    found = moment_of(clock_in(zone), LOCAL, from_wall_ms(reading_ms))
    assert found == first_moment(zone, reading_ms)


@EACH_ZONE
@given(epoch_ms=MOMENTS)
def test_iso_times_with_an_offset_name_a_moment(zone: str, epoch_ms: int) -> None:
    clock = clock_in(zone)
    moment = EPOCH.replace(tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    there = moment.astimezone(ZoneInfo(zone))
    shown = from_wall_ms(reading_at(zone, epoch_ms))
    assert parse_moment(clock, LOCAL, moment.isoformat()) == shown
    assert parse_moment(clock, LOCAL, there.isoformat()) == shown
    assert parse_moment(clock, LOCAL, there.replace(tzinfo=None).isoformat()) == shown
    assert parse_moment(clock, TimelineZone.UTC, there.isoformat()) == from_wall_ms(epoch_ms)


@EACH_ZONE
@given(start_ms=NEAR_CHANGES, steps=st.lists(st.integers(-3_600_000, 3_600_000), min_size=1))
def test_times_grow_whatever_clocks_do(zone: str, start_ms: int, steps: list[int]) -> None:
    clock = clock_in(zone)
    clock.wall_ms += start_ms - clock.now_ms()
    newest = next_time(now_wall_ms(clock, LOCAL), after=None)
    for step in steps:
        clock.wall_ms += step
        time = next_time(now_wall_ms(clock, LOCAL), after=newest)
        assert time > newest
        assert time >= from_wall_ms(now_wall_ms(clock, LOCAL))
        newest = time
