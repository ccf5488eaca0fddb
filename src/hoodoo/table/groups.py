"""The file groups of a table as of a timeline; no schema is needed, and so no Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from hoodoo.model.files import DataFile, FileGroup, FileGroupId
from hoodoo.model.instant import Action, Instant
from hoodoo.model.lister import Keep, Lister, everything
from hoodoo.model.slices import Visibility, depends_on_history, file_groups
from hoodoo.table.file_index import FileIndex
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline


def visible_groups(
    ref: TableRef,
    view: Timeline,
    visibility: Visibility | None = None,
    keep: Keep = everything,
    lister: Lister | None = None,
) -> tuple[FileGroup, ...]:
    """File groups that a reader of this timeline sees, by partition and file id.

    `visibility` is that of the whole timeline unless a part of it is meant; then `lister` should
    know the whole one.
    """
    if visibility is None:
        visibility = view.visibility(start=view.start)
    files = list((lister or FileIndex(ref, view)).files(keep))
    groups, _ = group_files(ref, files, visibility)
    replaced = find_replaced(ref, view)
    visible = [group for group in groups if group.id not in replaced]
    return tuple(sorted(visible, key=attrgetter("id")))


def group_files(
    ref: TableRef, files: Sequence[DataFile], visibility: Visibility
) -> tuple[list[FileGroup], Visibility]:
    """File groups with their visible slices, replaced ones too; and what decided about that."""
    by_completion = ref.properties.version.slices_by_completion
    if by_completion and depends_on_history(files, visibility):
        from hoodoo.timeline.history import add_history  # imports Arrow, and is rarely needed

        visibility = add_history(ref.env, ref.properties.timeline, visibility)
    return file_groups(files, visibility, by_completion=by_completion), visibility


def find_replaced(ref: TableRef, view: Timeline) -> dict[FileGroupId, Instant]:
    """File groups that a completed replace commit took out, and which one did."""
    replaced: dict[FileGroupId, Instant] = {}
    for instant in view.commits:
        if instant.action is Action.REPLACE_COMMIT:
            commit = read_commit(ref.env, ref.properties.timeline, instant)
            for group in commit.replaced_file_groups():
                replaced.setdefault(group, instant)
    return replaced
