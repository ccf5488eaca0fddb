"""The metadata table: a table inside the table with the list of files and the indexes.

Read in this order:
    `table`          the metadata table as a value: its instants and the files of its partitions
    `entries/`       reading, merging and encoding entries
    `indexes/`       for each index: what an action changes in it, and how readers use it
    `changes`        what a commit, clean or restore changes in all partitions together; pure
    `delta_commits`  writing, removing and rolling back a delta commit of the metadata table
    `recorder`       records one action of the table: prepare outside the lock, write inside
    `build`          creates a metadata table and fills a partition

How it stays in step with a commit: before the lock, `MetadataTableRecorder.prepare` reads the new
files and encodes log files. Inside the gate, `MetadataTableRecorder.record_commit` calls
`delta_commits.write_delta_commit` with the time of the commit; only then the head is replaced.
Readers ignore a delta commit whose instant is pending on the table's timeline
(`table.valid_instants`), so the head decides about both.
A crash before the head leaves a delta commit that no reader counts; the rollback of the instant
removes it (`delta_commits.roll_back_delta_commit`).

In: write stats and metadata of an action, inside a `Txn`. Out: lists of files, statistics, bloom
filters, locations of keys.
Not here: whether readers list by it (read/file_listing), building indexes beside writers
(services/indexing), its compaction (services/compaction/metadata_table).
"""
