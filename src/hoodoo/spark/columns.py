"""The columns that travel beside the user's own from Spark to the handles."""

from __future__ import annotations

from hoodoo.write.bulk import HASH as HASH

PREFIX = "_hoodoo_"
"""What the names of all of them begin with; users' columns do not."""

# `HASH` is of the record key: it decides where new rows go, and tells inputs apart.
PLACE = "_hoodoo_place"
"""The partition whose file group takes the row; nearly always the row's own."""
GROUP = "_hoodoo_group"
"""The id of the file group that has the row's key, empty if there is none."""
DELETED = "_hoodoo_deleted"
"""Whether the row is taken out of its file group instead of written to it."""
BUCKET = "_hoodoo_bucket"
"""The number of the bucket that the row goes to."""
TASK = "_hoodoo_task"
"""A number that leads the row to the task of its bucket."""

OWN = (HASH, PLACE, GROUP, DELETED, BUCKET, TASK)
