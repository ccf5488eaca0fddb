"""Where things live under a table's base path. All paths are relative to it, with `/`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from hoodoo.model.instant import InstantTime, TimelineZone

PartitionPath = NewType("PartitionPath", str)

META = ".hoodie"
PROPERTIES = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP = ".hoodie/hoodie.properties.backup"
HEARTBEATS = ".hoodie/.heartbeat"
CANCELS = ".hoodie/.cancel"
MARKERS = ".hoodie/.temp"
LOCK = ".hoodie/.locks/table_lock.json"
METADATA_TABLE = ".hoodie/metadata"
OWN = ".hoodie/.aux/hoodoo"
HEAD = f"{OWN}/head"
STAGED = f"{OWN}/staged"
ABORTED = f"{OWN}/aborted"
COMPLETIONS = f"{OWN}/completion"
FINALS = f"{OWN}/finalize"
PROBES = f"{OWN}/probes"
SWEEPS = f"{OWN}/sweeps"
BLOOMS = f"{OWN}/blooms"
STOPS = f"{OWN}/stops"
UPGRADE = f"{OWN}/upgrade"
GROUP_LOCKS = ".hoodie/.locks/file_groups"
PARTITION_METADATA = ".hoodie_partition_metadata"
HISTORY_VERSION = "_version_"
PLACEHOLDER = ".hoodoo"


def join(*parts: str) -> str:
    """Path of parts, empty ones left out."""
    return "/".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class TimelinePaths:
    """Where a table keeps its timeline: layout 1 in `.hoodie` itself, layout 2 below it.

    And in which time zone its instants are.
    """

    layout: int
    active: str
    history: str
    zone: TimelineZone = TimelineZone.UTC

    @classmethod
    def of(
        cls,
        layout: int,
        *,
        timeline: str = "timeline",
        history: str | None = None,
        zone: TimelineZone = TimelineZone.UTC,
    ) -> TimelinePaths:
        """The places of a layout; the names are those in the table's properties."""
        if layout == 1:
            return cls(1, META, f"{META}/{history or 'archived'}", zone)
        active = f"{META}/{timeline}"
        return cls(layout, active, f"{active}/{history or 'history'}", zone)


def heartbeat(instant: InstantTime) -> str:
    """The file whose age tells whether the writer of an instant lives."""
    return f"{HEARTBEATS}/{instant}"


def cancel(instant: InstantTime) -> str:
    """The request to cancel a plan."""
    return f"{CANCELS}/{instant}"


def aborted(instant: InstantTime) -> str:
    """The record of a plan that was cancelled."""
    return f"{ABORTED}/{instant}"


def marker_directory(instant: InstantTime) -> str:
    """Where a write announces the files that it is about to make."""
    return f"{MARKERS}/{instant}"


def staged(instant: InstantTime, owner: str) -> str:
    """The content of a decision that is too large for the head."""
    return f"{STAGED}/{instant}-{owner}"


def completion_directory(instant: InstantTime, epoch: int | None = None) -> str:
    """Where the handles of a write say that they are done, in one attempt at it or in all."""
    return f"{COMPLETIONS}/{instant}" if epoch is None else f"{COMPLETIONS}/{instant}/{epoch}"


def completion(instant: InstantTime, epoch: int, handle: str) -> str:
    """The file whose creation decides which attempt of a handle counts."""
    return f"{completion_directory(instant, epoch)}/{handle}"


def final(instant: InstantTime) -> str:
    """The file that tells tasks that their write goes on without them."""
    return f"{FINALS}/{instant}"


def group_bloom(instant: InstantTime) -> str:
    """The filter of the file groups that a write touches."""
    return f"{BLOOMS}/{instant}"


def stop(instant: InstantTime) -> str:
    """The note by which a task of a write tells the others that it has failed."""
    return f"{STOPS}/{instant}"


def leftovers(instant: InstantTime) -> str:
    """What is to be swept once more after a rollback."""
    return f"{SWEEPS}/{instant}"
