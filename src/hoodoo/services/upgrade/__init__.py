"""Upgrade: brings a table of version 6 or 8 to version 9.

Read in this order:
    `upgrade`         the steps under the table's lock
    `plan`            whether the table can be upgraded, and which properties change; pure
    `timeline`        names and contents of old timeline files in the new layout; pure
    `metadata_table`  the note of a running upgrade, and the new metadata table

Flow: `upgrade.upgrade` writes the new timeline beside the old one, replaces hoodie.properties by
condition (from then on the table has version 9), deletes the old timeline, rebuilds the metadata
table. If it dies, the table is whole in its old or its new version; running it again finishes it.

In: a `TableRef` of an old table; no other process may write meanwhile. Out: the changed properties.
Not here: reading old tables (table, read, format/timeline/old_history). Data files stay as they
are.
"""
