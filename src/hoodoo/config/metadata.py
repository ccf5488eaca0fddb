"""Keys of the metadata table: whether reads use it."""

from __future__ import annotations

from hoodoo.config.key import Key, boolean

METADATA_ENABLE = Key(
    "hoodie.metadata.enable",
    boolean,
    True,
    "Reads take the listing of files from the metadata table, if the table has one. Writes do not "
    "make one yet: they refuse `true` where it is set.",
)
DATA_SKIPPING = Key(
    "hoodie.enable.data.skipping",
    boolean,
    True,
    "Filtered reads leave out files that cannot match, by the statistics of columns in the "
    "metadata table.",
)
