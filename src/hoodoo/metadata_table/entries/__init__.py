"""Entries of the metadata table: read from its files, merged, and encoded.

Read in this order:
    `merge`   merges entries of a base file and its logs, by the rule of each partition
    `rules`   per partition: how entries are decoded, merged and spread over file groups
    `read`    all entries, some keys, or some prefixes, read on an engine
    `encode`  entries -> base HFiles and log files

In: a `MetadataTable` and a partition; or tables of entries to encode. Out: Arrow tables with one
row per key, sorted; bytes of files.
Not here: the meaning of an entry (metadata_table/indexes), bytes of single values
(format/metadata_table), creating files (metadata_table/delta_commits, metadata_table/build).
"""
