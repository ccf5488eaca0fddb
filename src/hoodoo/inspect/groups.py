"""The file groups of a table as of a timeline, found without its schema (and so without Arrow)."""

from __future__ import annotations

from dataclasses import replace

from hoodoo.model.files import FileGroup, FileGroupId
from hoodoo.model.instant import Action
from hoodoo.model.slices import depends_on_history, file_groups
from hoodoo.table.listing import DirectoryLister, Keep, everything
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline


def visible_groups(
    ref: TableRef, timeline: Timeline, keep: Keep = everything
) -> tuple[FileGroup, ...]:
    """File groups that a reader of this timeline sees, by partition and file id."""
    visibility = timeline.visibility(start=timeline.start)
    files = list(DirectoryLister(ref.env, ref.properties.keys).files(keep))
    by_completion = ref.properties.version.slices_by_completion
    if by_completion and depends_on_history(files, visibility):
        from hoodoo.timeline.history import load_history  # imports Arrow, and is rarely needed

        archived = load_history(ref.env, ref.properties.timeline)
        completions = {i.requested_time: i.completion_time for i in archived if i.completion_time}
        visibility = replace(visibility, archived_completions=completions)
    groups = file_groups(files, visibility, by_completion=by_completion)
    replaced = _replaced(ref, timeline)
    kept = [group for group in groups if group.id not in replaced]
    return tuple(sorted(kept, key=lambda group: (group.id.partition, group.id.file_id)))


def _replaced(ref: TableRef, timeline: Timeline) -> set[FileGroupId]:
    found: set[FileGroupId] = set()
    for instant in timeline.commits:
        if instant.action is Action.REPLACE_COMMIT:
            commit = read_commit(ref.env, ref.properties.timeline, instant)
            found |= commit.replaced_file_groups()
    return found
