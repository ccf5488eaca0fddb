"""Whether the metadata table lists the files that are there."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.model.files import DataFile, made_by
from hoodoo.model.slices import Visibility
from hoodoo.table.file_index import open_current
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.ref import TableRef


@dataclass(frozen=True, slots=True)
class ListingDifference:
    """Paths of files of completed instants about which metadata table and directories disagree."""

    unlisted: tuple[str, ...] = ()
    """In a directory, but not in the metadata table: readers do not see their rows."""
    absent: tuple[str, ...] = ()
    """In the metadata table, but not in a directory: reads of them fail."""
    resized: tuple[str, ...] = ()
    """Files whose size is another one than the metadata table says."""

    def __bool__(self) -> bool:
        return bool(self.unlisted or self.absent or self.resized)


def compare_listings(ref: TableRef) -> ListingDifference:
    """What differs, and still does on a second look: tables change while one looks.

    Raises `FormatError` if the metadata table cannot be read, or lacks a commit.
    """
    first = _compare(ref)
    if not first:
        return first
    again = _compare(ref)
    return ListingDifference(
        _both(first.unlisted, again.unlisted),
        _both(first.absent, again.absent),
        _both(first.resized, again.resized),
    )


def _both(first: tuple[str, ...], again: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in first if path in again)


def _compare(ref: TableRef) -> ListingDifference:
    from hoodoo.metadata.lister import MetadataLister  # imports Arrow

    timeline = ref.load_timeline()
    visibility = timeline.visibility(start=timeline.start)
    keys = ref.properties.keys
    table = open_current(ref, timeline)
    listed = _sizes(MetadataLister(table, is_partitioned=keys.is_partitioned).files(), visibility)
    stored = _sizes(list(DirectoryLister(ref.env, keys).files()), visibility)
    shared = listed.keys() & stored.keys()
    return ListingDifference(
        tuple(sorted(stored.keys() - listed.keys())),
        tuple(sorted(listed.keys() - stored.keys())),
        tuple(sorted(path for path in shared if listed[path] != stored[path])),
    )


def _sizes(files: list[DataFile], visibility: Visibility) -> dict[str, int]:
    return {file.path: file.size_bytes for file in files if visibility.sees(made_by(file))}
