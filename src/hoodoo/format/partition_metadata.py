"""`.hoodie_partition_metadata`: the file that makes a directory a partition.

#partition metadata
#Sat Mar 07 16:26:00 UTC 2026
commitTime=20260307162557587        the instant that made the partition
partitionDepth=1                    how many directories it lies below the table
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.errors import FormatError
from hoodoo.format import properties
from hoodoo.model.instant import InstantTime, is_instant_time
from hoodoo.model.paths import PartitionPath

_COMMIT_TIME = "commitTime"
_DEPTH = "partitionDepth"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Who made a partition, and how deep it lies."""

    commit_time: InstantTime
    depth: int

    @classmethod
    def of(cls, partition: PartitionPath, *, made_by: InstantTime) -> PartitionMetadata:
        """The metadata of a partition that `made_by` creates."""
        return cls(made_by, len(partition.split("/")) if partition else 0)


def encode(metadata: PartitionMetadata, *, at_ms: int | None = None) -> bytes:
    """The file's bytes; with a date line if a time is given."""
    values = {_COMMIT_TIME: metadata.commit_time, _DEPTH: str(metadata.depth)}
    return properties.serialise(values, comment="partition metadata", at_ms=at_ms)


def decode(data: bytes) -> PartitionMetadata:
    """What the file's bytes say."""
    values = properties.parse(data)
    commit_time, depth = values.get(_COMMIT_TIME), values.get(_DEPTH)
    if commit_time is None or not is_instant_time(commit_time):
        raise FormatError(f"{_COMMIT_TIME} is {commit_time!r}, not an instant time")
    if depth is None or not (depth.isascii() and depth.isdigit() and len(depth) <= 9):
        raise FormatError(f"{_DEPTH} is {depth!r}, not a small whole number")
    return PartitionMetadata(InstantTime(commit_time), int(depth))
