"""Where things live."""

from __future__ import annotations

from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import TimelinePaths, join

T = InstantTime("20260307162557587")


def test_join_leaves_out_what_is_empty() -> None:
    assert join("", "f.parquet") == "f.parquet"
    assert join("a=1/b=2", "f.parquet") == "a=1/b=2/f.parquet"
    assert join("", "") == ""


def test_timeline_paths() -> None:
    assert TimelinePaths.of(1) == TimelinePaths(1, ".hoodie", ".hoodie/archived")
    assert TimelinePaths.of(2) == TimelinePaths(2, ".hoodie/timeline", ".hoodie/timeline/history")
    assert TimelinePaths.of(2, timeline="t", history="h").history == ".hoodie/t/h"


def test_everything_of_ours_is_under_the_meta_folder() -> None:
    ours = (
        paths.heartbeat(T),
        paths.cancel_path(T),
        paths.marker_directory(T),
        paths.staged_content_path(T, "owner"),
        paths.PROPERTIES,
        paths.PROPERTIES_BACKUP,
        paths.LOCK,
        paths.METADATA_TABLE,
    )
    assert all(path.startswith(f"{paths.META}/") for path in ours)
    assert len(set(ours)) == len(ours)
    assert paths.HEAD.endswith("/head")
    assert paths.marker_directory(T) == f".hoodie/.temp/{T}"
    assert paths.heartbeat(T) == f".hoodie/.heartbeat/{T}"
