"""Tables that we and Apache Hudi both write: its settings, and one check for all three readers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import DEFAULTS
from compat.same_rows import assert_same_rows
from support.dead_writes import EXPIRY_S, make_older
from support.processes import until
from support.wheel import wheel_rows

import hoodoo
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime

ALONE = DEFAULTS | {
    "hoodie.table.name": "trips",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
"""Hudi as a single writer: no lock that others see, and it rolls back all that is pending."""

TOGETHER = ALONE | {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    # It does not wait for this lock, but tries again: 50 times, every 5 s, unless told.
    "hoodie.write.lock.client.num_retries": "500",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "20",
}
"""Hudi as one of many writers, with heartbeats; its cleaner alone rolls back what died."""

OUR_LOCK = {"hoodie.write.lock.provider": "filesystem"}
"""Our setting for the lock of `TOGETHER`."""

CLEANING = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}


def validated_by(query: str, result: str) -> dict[str, str]:
    """Hudi asks this when its files are written, before it takes the lock for its commit."""
    prefix = "hoodie.precommit.validators"
    return {
        prefix: "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
        f"{prefix}.single.value.sql.queries": f"{query}#{result}",
    }


DYING = validated_by("select count(*) from <TABLE_NAME>", "-1")
"""Hudi writes all files; then a check that cannot pass ends the write just before its commit.

It leaves behind what a writer that was killed there leaves: instant, markers, data files, and its
heartbeat, if it has one, which beats no more.
"""


NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
"""New rows go to new file groups, on either side."""

AFTER_FIRST = ("a 1 10", "b 1 20", "c 1 30", "d 1 40", "e 1 50")
"""The rows of `peer_rows.FIRST`, as `texts` has them."""


def new_table(place: Path, kind: str, options: Mapping[str, object] | None = None) -> hoodoo.Table:
    """A new table of ours."""
    return hoodoo.create_table(
        str(place),
        schema=trips("a sf 1 1").schema,
        name="trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options=options,
    )


def check(hudi: Peer, place: Path, *expected: str) -> None:
    """We, Hudi and the wheel read these rows, `id ts fare`; we and Hudi the same in all columns."""
    ours, theirs = hoodoo.open_table(str(place)).to_arrow(), hudi.read(place)
    assert_same_rows(ours, theirs)
    assert texts(ours.to_pylist()) == sorted(expected)
    assert texts(wheel_rows(place)) == sorted(expected)


def call_service(
    hudi: Peer,
    procedure: str,
    place: Path,
    options: Mapping[str, str] | None = None,
    **arguments: str,
) -> None:
    """Call a procedure of Hudi's that plans or runs a table service."""
    settings = {k: v for k, v in ALONE.items() if "shuffle" not in k} | dict(options or {})
    given = {"path": str(place), **arguments}
    given["options"] = ",".join(f"{key}={value}" for key, value in settings.items())
    told = ", ".join(f"{name} => '{value}'" for name, value in given.items())
    hudi.sql(f"call {procedure}({told})")


def texts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as `id ts fare`, sorted."""
    return sorted(f"{row['id']} {row['ts']} {row['fare']:g}" for row in rows)


def traces(place: Path, instant: str) -> set[str]:
    """Where anything named after an instant still is: paths from the table, checksums apart."""
    found = (file.relative_to(place) for file in place.rglob(f"*{instant}*"))
    return {str(path) for path in found if path.suffix != ".crc"}


def states(place: Path) -> list[str]:
    """The timeline as `action state`, oldest first."""
    return [f"{one.action} {one.state}" for one in hoodoo.open_table(str(place)).timeline()]


def pending(place: Path) -> list[str]:
    """The instants that have not ended."""
    timeline = hoodoo.open_table(str(place)).timeline()
    return [one.requested_time for one in timeline if not one.completion_time]


def silence(place: Path, *instants: str) -> None:
    """Let the last sign of life of these instants be so long ago that they count as dead."""
    for instant in instants:
        heartbeat = place / paths.heartbeat(InstantTime(instant))
        moved = (place / ".hoodie/timeline").glob(f"{instant}.*")
        for file in [heartbeat] if heartbeat.exists() else moved:
            make_older(file, EXPIRY_S + 60)


def settle(place: Path, options: Mapping[str, object] | None = None) -> None:
    """Let the time pass after which nothing can come late any more, and sweep."""
    for _ in range(3):
        for path in (place / ".hoodie").rglob("*"):
            if path.is_file():
                make_older(path, 3 * EXPIRY_S)
        hoodoo.open_table(str(place), options).recover()


class HeldWrite:
    """A write of Hudi's that has written its files and waits; its heartbeat beats."""

    def __init__(self, place: Path, folder: Path, end: Future[None]) -> None:
        self._folder = folder
        self._end = end
        (self.instant,) = pending(place)
        self.markers = place / paths.marker_directory(InstantTime(self.instant))

    def go_on(self) -> None:
        """Let it commit, or fail in the attempt."""
        (self._folder / "go").touch()
        self._end.result(60)


@contextmanager
def hold_write(
    hudi: Peer, place: Path, rows: pa.Table, options: Mapping[str, str]
) -> Iterator[HeldWrite]:
    """Hudi writes, and waits before its commit; meanwhile `hudi` answers nothing else.

    Nothing else is pending on the table. It goes on at the end of the block at the latest.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{place.name}-held", dir=place.parent))
    settings = {**options, **validated_by(f"select hold('{folder}')", "go")}
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(hudi.write, place, rows, settings)
        try:
            until(
                "Hudi has written its files",
                lambda: (folder / "reached").exists() or end.done(),
                within_s=60,
            )
            if end.done():
                end.result()
            yield HeldWrite(place, folder, end)
        finally:
            (folder / "go").touch()
