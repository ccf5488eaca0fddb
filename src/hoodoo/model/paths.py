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
HOODOO_DIRECTORY = ".hoodie/.aux/hoodoo"
HEAD = f"{HOODOO_DIRECTORY}/head"
STAGING = f"{HOODOO_DIRECTORY}/staged"
ABORT_MARKS = f"{HOODOO_DIRECTORY}/aborted"
COMPLETIONS = f"{HOODOO_DIRECTORY}/completion"
FINALS = f"{HOODOO_DIRECTORY}/finalize"
PROBES = f"{HOODOO_DIRECTORY}/probes"
SWEEPS = f"{HOODOO_DIRECTORY}/sweeps"
BLOOMS = f"{HOODOO_DIRECTORY}/blooms"
STOPS = f"{HOODOO_DIRECTORY}/stops"
UPGRADE = f"{HOODOO_DIRECTORY}/upgrade"
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


def heartbeat(instant_time: InstantTime) -> str:
    """The file whose age tells whether the writer of an instant lives."""
    return f"{HEARTBEATS}/{instant_time}"


def cancel_path(instant_time: InstantTime) -> str:
    """The request to cancel a plan."""
    return f"{CANCELS}/{instant_time}"


def aborted_plan_path(instant_time: InstantTime) -> str:
    """The record of a plan that was cancelled."""
    return f"{ABORT_MARKS}/{instant_time}"


def marker_directory(instant_time: InstantTime) -> str:
    """Where a write announces the files that it is about to make."""
    return f"{MARKERS}/{instant_time}"


def staged_content_path(instant_time: InstantTime, owner: str) -> str:
    """The content of a decision that is too large for the head."""
    return f"{STAGING}/{instant_time}-{owner}"


def completion_directory(instant_time: InstantTime, epoch: int | None = None) -> str:
    """Where the handles of a write say that they are done, in one attempt at it or in all."""
    return (
        f"{COMPLETIONS}/{instant_time}"
        if epoch is None
        else f"{COMPLETIONS}/{instant_time}/{epoch}"
    )


def completion(instant_time: InstantTime, epoch: int, handle: str) -> str:
    """The file whose creation decides which attempt of a handle counts."""
    return f"{completion_directory(instant_time, epoch)}/{handle}"


def finalize_marker_path(instant_time: InstantTime) -> str:
    """The file that tells tasks that their write goes on without them."""
    return f"{FINALS}/{instant_time}"


def group_bloom(instant_time: InstantTime) -> str:
    """The filter of the file groups that a write touches."""
    return f"{BLOOMS}/{instant_time}"


def stop_note_path(instant_time: InstantTime) -> str:
    """The note by which a task of a write tells the others that it has failed."""
    return f"{STOPS}/{instant_time}"


def sweep_note_path(instant_time: InstantTime) -> str:
    """What is to be swept once more after a rollback."""
    return f"{SWEEPS}/{instant_time}"
