"""Small tables as a stranger may hand them over: with links, decisions and plans of his own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app
from hoodoo.errors import HoodooError
from hoodoo.format.properties import CHECKSUM_KEY, checksum, parse, serialise
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import InstantInfo
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CleanerPlan, CleanFileInfo, RollbackPlan, RollbackRequest

SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())]
)
OLD_INSTANT = "20200101000000000"
"""An instant that no timeline of these tables knows."""
PLAN_INSTANT = "20200101000000500"
"""When the foreign plans were made."""
_LONG_AGO_S = 3 * 60 * 60


def rows(count: int, city: str = "sf", *, start: int = 0, ts: int = 1) -> pa.Table:
    """Rows with the keys `k<start>` and on."""
    return pa.table(
        {
            "id": [f"k{number}" for number in range(start, start + count)],
            "city": [city] * count,
            "fare": [float(number) for number in range(count)],
            "ts": [ts] * count,
        },
        schema=SCHEMA,
    )


def new_table(place: Path, **settings: object) -> hoodoo.Table:
    """A table with three rows in the partition `city=sf`."""
    table = hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="ts",
        **settings,
    )
    table.upsert(rows(3))
    return table


def data_file(place: Path, partition: str = "city=sf") -> str:
    """The path of the only base file of a partition."""
    (path,) = (place / partition).glob("*.parquet")
    return path.relative_to(place).as_posix()


class Elsewhere:
    """A directory of somebody else's, whose files are as old as leftovers that a sweep takes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("id_rsa", "notes.txt", "sub/a", "sub/deep/b"):
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("precious")
            make_old(path)
        self._first = self._files()

    def assert_untouched(self) -> None:
        """Nothing is gone, nothing came, nothing was written to."""
        assert self._files() == self._first

    def _files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.place).as_posix(): path.read_bytes()
            for path in self.place.rglob("*")
            if path.is_file()
        }


def make_old(path: Path) -> None:
    """Let a file be older than anything that somebody could still be at work on."""
    then = time.time() - _LONG_AGO_S
    os.utime(path, (then, then))


def move_head(place: Path, kind: str, path: str, content: bytes | None = None) -> None:
    """Let the head name a decision that was taken and is not carried out yet."""
    head = place / ".hoodie/.aux/hoodoo/head"
    decision = json.loads(head.read_text())
    decision.update(
        number=decision["number"] + 1,
        kind=kind,
        instant="20990101000000000",
        path=path,
        needs=None,
        content=None if content is None else base64.b64encode(content).decode(),
        staged=None,
        cancels=[],
    )
    if content is not None:
        decision["sha256"] = hashlib.sha256(content).hexdigest()
    head.write_text(json.dumps(decision))


def plan_rollback(
    place: Path, *files: str, instant: str = OLD_INSTANT, action: str = "commit"
) -> None:
    """Lay a rollback of an unknown instant onto the timeline, which names files to delete."""
    requests = tuple(
        RollbackRequest(
            partition_path=PartitionPath(file.rpartition("/")[0]), files_to_be_deleted=(file,)
        )
        for file in files
    )
    target = InstantInfo(commit_time=instant, action=action)
    plan = RollbackPlan(instant_to_rollback=target, rollback_requests=requests)
    _lay_plan(place, "rollback", codec.encode(plan))


def plan_clean(place: Path, *files: str) -> None:
    """Lay a clean onto the timeline, which names files to delete."""
    by_partition = {
        PartitionPath(file.rpartition("/")[0]): (
            CleanFileInfo(file_path=file, is_bootstrap_base_file=False),
        )
        for file in files
    }
    plan = CleanerPlan(
        policy="KEEP_LATEST_COMMITS",
        file_paths_to_be_deleted_per_partition=by_partition,
        files_to_be_deleted_per_partition={},
    )
    _lay_plan(place, "clean", codec.encode(plan))


def _lay_plan(place: Path, action: str, data: bytes) -> None:
    path = place / f".hoodie/timeline/{PLAN_INSTANT}.{action}.requested"
    path.write_bytes(data)
    make_old(path)


def change_properties(place: Path, changes: Mapping[str, str]) -> None:
    """Change `hoodie.properties`, with a checksum that is right."""
    file = place / ".hoodie/hoodie.properties"
    properties = parse(file.read_bytes()) | dict(changes)
    properties[CHECKSUM_KEY] = str(checksum(properties))
    file.write_bytes(serialise(properties, comment="x", at_ms=0))


def upsert_one_row(place: Path) -> None:
    """Write a row of a new key."""
    hoodoo.open_table(str(place)).upsert(rows(1, "la", start=50))


def recover(place: Path) -> None:
    hoodoo.open_table(str(place)).recover()


def clean(place: Path) -> None:
    hoodoo.open_table(str(place)).clean()


def doctor_fix(place: Path) -> None:
    """Run `hoodoo doctor --fix`."""
    CliRunner().invoke(app, ["doctor", str(place), "--fix"])


def run_or_refuse(operation: Callable[[Path], None], place: Path) -> None:
    """An operation on a hostile table may go on without the bad part, or say what is wrong."""
    with suppress(HoodooError):
        operation(place)
