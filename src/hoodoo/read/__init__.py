"""Reading rows: from what a user asks for to file slices to Arrow tables.

Read in this order:
    `file_listing`  which data files there are: by the metadata table, or else by directories
    `snapshot`      `Snapshot`: the file slices and the schema of the table at one moment
    `base_files`    `ReadRule` (how rows are read), and the rows of one base file
    `log_files`     a slice with logs: which blocks count, merged with the base file
    `scan`          the entry points: rows, batches, first rows, counts
    `change_feed/`  rows that changed between two moments

Flow: `snapshot.take_snapshot` -> `scan.select_slices` prunes partitions and files ->
`scan.read_slice` reads one slice; executors and threads run the same function.
If the metadata table is damaged or lacks a commit, `file_listing` lists directories, with a
warning.

In: a `TableRef`, columns, a filter, an instant. Out: Arrow tables and batches; `Snapshot` for
writes and services.
Not here: DataFrames (spark/read), merge rules (rows/merge), data skipping itself
(metadata_table/indexes). This package creates and deletes no file.
"""
