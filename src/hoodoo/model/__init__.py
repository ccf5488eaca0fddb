"""Values and pure rules of a table: instants, files, keys, plans, filters; no input or output.

Read in this order:
    `instant`         instants: time, action, state; the order of time
    `table`           table type, format version, typed properties
    `files`           data files -> file slices -> file groups; which ones a view sees
    `keys`            text rules of record keys and partition paths; bucket ids
    `merge`           which of two versions of a record wins
    `commit`          what completed instants say: write stats, cleans, rollbacks; notes of callers
    `plans`           what pending instants intend, the terms of plans, the row order of clusterings
    `coordination`    head and decision, heartbeat body, cancel request, notes for sweeps
    `metadata_table`  names of the metadata table's partitions and file groups
    `names`           every file name with a meaning: text -> value, value -> text
    `paths`           where each of these files lives below the table
    `predicate`       row filters: parsed from SQL text; which files cannot match (`may_match`)
    `dates`           Java date patterns, for partitions made of timestamps
    `progress`        how far a write or a service is, for callbacks of users

In: plain Python values. Out: frozen values and answers of pure functions.
Not here: Arrow (the same rules on whole columns are in rows), bytes of files (format), reading or
writing anything (storage, table). Modules here import the standard library only.
"""
