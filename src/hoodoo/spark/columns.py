"""The columns that travel beside the user's own from Spark to the handles."""

from __future__ import annotations

from hoodoo.write.bulk import HASH as HASH

PREFIX = "_hoodoo_"
"""What the names of all of them begin with; users' columns do not."""

# `HASH` is of the record key: it decides where new rows go, and tells inputs apart.
PLACE = "_hoodoo_place"
"""The partition whose file group takes the row; nearly always the row's own."""
LABEL = "_hoodoo_label"
"""The label of the row's destination; see `model.file_group_write.Destination`."""
DELETED = "_hoodoo_deleted"
"""Whether the row is taken out of its file group instead of written to it."""
WRITE = "_hoodoo_write"
"""The number of the `FileGroupWrite` that the row goes to."""
TASK = "_hoodoo_task"
"""A number that leads the row to the task that writes its file group."""

OWN = (HASH, PLACE, LABEL, DELETED, WRITE, TASK)
