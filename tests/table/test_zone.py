"""Tables whose instants are in UTC, and such whose instants are in the writer's local time."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from support.hand_clock import HandClock, HandIds, World
from support.zones import time_zone

import hoodoo
from hoodoo.concurrency.transactions.transaction import REMIND_S, new_time, transaction
from hoodoo.errors import ConfigError, FormatError
from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, InstantTime, State, TimelineZone, from_wall_ms
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import instant_path

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
ZONE_KEY = "hoodie.table.timeline.timezone"
LOCAL, NEW_YORK, TOKYO = {ZONE_KEY: "LOCAL"}, "America/New_York", "Asia/Tokyo"
CHICAGO = "America/Chicago"  # where Apache Hudi wrote the fixtures
ALL = "2100-01-01"


def rows(**values: int) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def values(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def make(path: Path, options: dict[str, str] | None = None) -> hoodoo.Table:
    return hoodoo.create_table(str(path / "t"), schema=SCHEMA, record_key="id", options=options)


def properties(path: Path) -> str:
    return (path / "t" / paths.PROPERTIES).read_text()


def moment(instant: str, zone: str) -> datetime:
    """When clocks of a zone showed an instant."""
    read = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=ZoneInfo(zone))
    return read + timedelta(milliseconds=int(instant[14:]))


# The property


@pytest.mark.parametrize(
    ("text", "zone"),
    [("LOCAL", "LOCAL"), ("local", "LOCAL"), ("UTC", "UTC"), ("utc", "UTC"), (None, "UTC")],
)
def test_a_new_table_is_in_utc_unless_told(tmp_path: Path, text: str | None, zone: str) -> None:
    make(tmp_path, None if text is None else {ZONE_KEY: text})
    assert f"{ZONE_KEY}={zone}\n" in properties(tmp_path)
    assert open_ref(str(tmp_path / "t")).properties.timeline_zone is TimelineZone(zone)


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    (path / "t" / paths.PROPERTIES).write_text(change(properties(path)))


def test_absent_means_local_as_in_apache_hudi(tmp_path: Path) -> None:
    make(tmp_path)
    rewrite(tmp_path, lambda text: text.replace(f"{ZONE_KEY}=UTC\n", ""))
    assert open_ref(str(tmp_path / "t")).properties.timeline_zone is TimelineZone.LOCAL


def test_a_bad_zone_names_file_and_key(tmp_path: Path) -> None:
    make(tmp_path)
    rewrite(tmp_path, lambda text: text.replace(f"{ZONE_KEY}=UTC", f"{ZONE_KEY}=Mars"))
    with pytest.raises(FormatError, match=f"{paths.PROPERTIES}.*{ZONE_KEY}.*Mars"):
        open_ref(str(tmp_path / "t"))
    with pytest.raises(ConfigError, match=ZONE_KEY):
        make(tmp_path / "other", {ZONE_KEY: "Mars"})


def test_an_option_does_not_move_a_table_to_another_zone(tmp_path: Path) -> None:
    make(tmp_path)
    ref = open_ref(str(tmp_path / "t"), LOCAL)
    assert ref.properties.timeline_zone is TimelineZone.UTC
    with pytest.raises(ConfigError, match="the table has 'UTC' there"):
        hoodoo.open_table(str(tmp_path / "t"), LOCAL).insert(rows(a=1))


# Writes and time travel

WRITE = """
import json, sys
import pyarrow as pa
import hoodoo
from support.wheel import wheel_rows

place, zone = sys.argv[1:]
schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
table = hoodoo.create_table(
    place, schema=schema, record_key="id", options={"hoodie.table.timeline.timezone": zone}
)
first = table.insert(pa.table([["a"], [1]], schema=schema))
second = table.upsert(pa.table([["a"], [2]], schema=schema))
wheel = [[row["v"] for row in wheel_rows(place, one.instant)] for one in (first, second)]
json.dump([first.instant, first.completion_time, second.instant, wheel], sys.stdout)
"""


@pytest.mark.parametrize(("zone", "shown"), [("LOCAL", NEW_YORK), ("UTC", "UTC")])
def test_a_process_in_new_york(tmp_path: Path, zone: str, shown: str) -> None:
    """It draws New York's time on a LOCAL table; both readers travel in time there."""
    place = str(tmp_path / "t")
    found = subprocess.run(
        [sys.executable, "-c", WRITE, place, zone],
        env={**os.environ, "TZ": NEW_YORK, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    first, completed, second, wheel = json.loads(found.stdout)
    assert first < completed < second
    assert abs(moment(first, shown) - datetime.now(UTC)) < timedelta(minutes=5)
    assert wheel == [[1], [2]]
    with time_zone(NEW_YORK):
        table = hoodoo.open_table(place)
        when = moment(completed, shown)
        for as_of in (first, completed, when, when.astimezone(UTC), when.astimezone().isoformat()):
            assert values(table.to_arrow(as_of=as_of)) == {"a": 1}
            assert values(table.changes(since=as_of)) == {"a": 2}
            assert values(table.changes(since="1999-01-01", until=as_of)) == {"a": 1}
        assert values(table.to_arrow(as_of=second)) == {"a": 2}


@pytest.mark.parametrize(("zone", "offset"), [(NEW_YORK, "-05:00"), (TOKYO, "+09:00")])
def test_iso_times_on_a_local_table(tmp_path: Path, zone: str, offset: str) -> None:
    with time_zone(zone):
        table = make(tmp_path, LOCAL)
        place_instants(table, "20260115120000000", "20260115130000000")
        assert visible(table, f"2026-01-15T12:30:00{offset}") == 1
        assert visible(table, "2026-01-15T12:30:00") == 1  # without an offset: local time
        assert visible(table, f"2026-01-15T11:59:59{offset}") == 0
        assert visible(table, "2026-01-15T11:59:59") == 0
        assert visible(table, f"2026-01-15T13:00:00{offset}") == 2
        utc = datetime.fromisoformat(f"2026-01-15T12:30:00{offset}").astimezone(UTC)
        assert visible(table, utc.isoformat()) == 1


@pytest.mark.parametrize("zone", [NEW_YORK, TOKYO])
def test_iso_times_on_a_utc_table(tmp_path: Path, zone: str) -> None:
    with time_zone(zone):
        table = make(tmp_path)
        place_instants(table, "20260115120000000", "20260115130000000")
        assert visible(table, "2026-01-15T12:30:00") == 1
        assert visible(table, "2026-01-15T12:30:00Z") == 1
        assert visible(table, "2026-01-15T07:30:00-05:00") == 1
        assert visible(table, "2026-01-15T11:59:59Z") == 0


def place_instants(table: hoodoo.Table, *times: str) -> None:
    """Inserts of one row each, made to have been requested at these times."""
    for number, time in enumerate(times):
        written = table.insert(rows(**{f"row{number}": number}))
        root = Path(table.uri.removeprefix("file://"))
        for file in [*root.rglob(f"*{written.instant}*")]:
            name = file.name.replace(f"_{written.completion_time}", f"_{time[:-1]}1")
            file.rename(file.with_name(name.replace(written.instant, time)))


def visible(table: hoodoo.Table, as_of: str) -> int:
    """How many of those inserts there are as of a time."""
    return table.to_arrow(as_of=as_of).num_rows


def test_a_table_that_apache_hudi_wrote_in_chicago(unpack: Callable[[str], Path]) -> None:
    place = str(unpack("cow/v9_txns_simple_nometa"))
    assert open_ref(place).properties.timeline_zone is TimelineZone.LOCAL
    table = hoodoo.open_table(place)
    first = table.to_arrow(as_of="20260307135657661")
    last = table.to_arrow()
    assert first.num_rows != last.num_rows
    # Its properties were saved at 19:56:56 UTC, and the second commit was requested at 19:57:00.7.
    with time_zone(CHICAGO):
        for as_of in ("2026-03-07T19:57:00Z", "2026-03-07T13:57:00", "2026-03-07T14:57:00-05:00"):
            assert table.to_arrow(as_of=as_of).equals(first)
        assert table.to_arrow(as_of="2026-03-07T19:56:56Z").num_rows == 0
    with time_zone("UTC"):
        assert table.to_arrow(as_of="2026-03-07T19:57:00Z").equals(last)


# Clocks that are behind


class Machine:
    """A table in memory and one machine that writes it."""

    def __init__(self, name: str, zone: str) -> None:
        self.store = MemoryStorage(name)
        self.world = World()
        self.clock: HandClock = self.world.machine()
        env = Env(self.store, self.clock, HandIds("host"))
        create_table(
            self.store.uri, schema=SCHEMA, record_key="id", options={ZONE_KEY: zone}, env=env
        )
        self.ref: TableRef = open_ref(self.store.uri, env=env)

    def draw(self) -> InstantTime:
        with transaction(self.ref, "drawing a time") as txn:
            return new_time(txn)

    def place(self, time: InstantTime) -> None:
        instant = Instant(time, Action.CLEAN, State.INFLIGHT)
        self.store.create(instant_path(self.ref.properties.timeline_paths, instant), b"")

    def place_ahead(self, minutes: float) -> InstantTime:
        time = from_wall_ms(self.clock.local_ms(self.clock.now_ms()) + int(minutes * 60_000))
        self.place(time)
        return time


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "hoodoo.concurrency"]


@pytest.mark.parametrize("minutes", [11, 3 * 24 * 60])
def test_an_instant_ahead_is_followed_with_a_warning(
    caplog: pytest.LogCaptureFixture, minutes: int
) -> None:
    machine = Machine(f"ahead-{minutes}", "UTC")
    ahead = machine.place_ahead(minutes)
    with caplog.at_level(logging.WARNING):
        assert int(machine.draw()) == int(ahead) + 1
        machine.draw()
        (message,) = warnings(caplog)
        machine.world.pass_time(REMIND_S)
        ahead = machine.place_ahead(minutes)
        machine.draw()
    assert len(warnings(caplog)) == 2
    for word in (machine.ref.uri, f"ahead_minutes={minutes}", "ages and retention", "time zone"):
        assert word in message
    assert "LOCAL" not in message


def test_a_little_ahead_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine("a-little-ahead", "UTC")
    ahead = machine.place_ahead(9.9)
    with caplog.at_level(logging.WARNING):
        assert int(machine.draw()) == int(ahead) + 1
    assert warnings(caplog) == []


def test_writers_of_a_local_table_in_two_zones_are_told(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine("two-zones", "LOCAL")
    machine.clock.zone = ZoneInfo(TOKYO)
    ahead = machine.place_ahead(0)
    machine.clock.zone = ZoneInfo(NEW_YORK)
    with caplog.at_level(logging.WARNING):
        assert int(machine.draw()) == int(ahead) + 1
    (message,) = warnings(caplog)
    assert f"ahead_minutes={14 * 60}" in message
    assert "all its writers must run in one time zone" in message


def test_times_grow_over_the_hour_that_comes_twice(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine("twice", "LOCAL")
    machine.clock.zone = ZoneInfo(NEW_YORK)
    autumn = datetime(2026, 11, 1, 4, 50, tzinfo=UTC)  # 00:50; at 02:00 clocks go back
    machine.clock.wall_ms = int(autumn.timestamp() * 1000) - machine.clock.now_ms()
    times = []
    for _ in range(17):
        times.append(machine.draw())
        machine.place(times[-1])
        machine.world.pass_time(600)
    assert times == sorted(set(times))
    assert [times[0], times[6], times[7]] == [
        "20261101005000000",
        "20261101015000000",
        "20261101015000001",  # here it is 01:00 again
    ]
    assert times[-1] == "20261101023000000"
