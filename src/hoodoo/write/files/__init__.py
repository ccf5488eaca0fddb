"""What a task of a write does: the rows of one file group become new files and write stats.

Read in this order:
    `context`          what all handles of one write share; reaches executors by pickling
    `handle`           `handle.run_handle`: one file group, by merge, append or create
    `outputs`          files in the making: announced by markers, hidden until published
    `base_files`       rows -> base files of limited size
    `merge_base_file`  old rows and changes merged piece by piece; unchanged columns are copied
    `log_files`        changes -> a log file
    `meta_columns`     the meta columns of written rows
    `bulk_insert`      a stream of rows -> new file groups, in bounded memory
    `exactly_once`     of several attempts of a task, the first completion marker counts
    `finalize`         driver: named files must exist, announced files without a name are deleted

Flow: `handle.run_handle` -> `exactly_once.write_handle_once` -> `Outputs.open` announces and opens
a file -> `Outputs.publish` -> `exactly_once.record_completion`; then the driver runs
`finalize.finalize`. An attempt that comes second or too late deletes its own files
(`Outputs.withdraw`). If it cannot, its markers name them, and the rollback or the sweep deletes
them (recovery).

In: `WriteContext`, one `FileGroupWrite`, its changes. Out: `WriteStat` of each file.
Not here: which rows a file group gets (write/planning), conflicts (concurrency/conflicts), the
commit (write/commit). Files written here are invisible to readers until the commit.
"""
