"""Planning a write: rows prepared, their keys located, file groups assigned; nothing is written.

Read in this order:
    `prepare`     rows of a user -> rows in the table's schema, with keys and partition paths
    `assignment`  `WriteTarget` (snapshot and index) and `Assignment` (the file groups of a write)
    `locate`      the file group of each key, searched on an engine; rows shared out to file groups

Flow: `WriteTarget.load` -> `prepare.prepare` -> `locate.locate` (or `locate.locate_new` for
inserts) -> `locate.route_rows`, which calls `assignment.assign`.

In: an Arrow table of rows or of keys to delete. Out: a planned write with its `Assignment`.
Not here: the rules of an index (write/index), the same steps on DataFrames (spark/write; it shares
`assignment.assign` and, for few keys, `locate.locate`), taking an instant (write/commit/begin).
"""
