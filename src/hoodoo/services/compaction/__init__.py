"""Compaction: logs merged into base files, logs merged into one log, and the metadata table.

Read in this order:
    `compaction`      logs of a file group -> its next base file; when that is due
    `log_compaction`  logs of a file group -> one log file
    `metadata_table`  compaction, cleaning and archival of the metadata table itself

Flow of the first two: schedule (`compaction.schedule_compaction`) -> run
(`compaction.run_compaction`) -> `execute.run_rewrite` (services/plans) with one handle for each
file group -> commit through the gate. Readers see the same rows before and after.
The metadata table has no plan on the table's timeline: `metadata_table.compact_metadata_table`
compacts inside a transaction; a compaction that was cut off is removed by the next one.

In: a `TableRef`, terms, an engine. Out: a plan; `ServiceResult`.
Not here: merging rows (read/log_files, rows/merge), handles (write/files), the life of a plan
(services/plans).
"""
