"""Entries of the metadata table: Avro values to Arrow columns and back, one module per index.

Read in this order:
    `schema`           the Avro schema of all values, and the Arrow types of its parts
    `values`           values <-> Arrow structs, all at once; values of older releases too
    `keys`             how keys are made, and the file group that a key belongs to
    `files`            partition files: the data files of each partition
    `column_stats`     partitions column_stats and partition_stats: bounds and counts of columns
    `bloom_filters`    partition bloom_filters: one filter per base file
    `record_index`     partition record_index: record key -> file group
    `secondary_index`  partitions secondary_index_*: value and record key; read only

In: keys and values as HFiles hold them. Out: Arrow tables with one row per entry, and back.
Not here: HFiles (format/hfile), merging entries (metadata_table/entries), what a commit changes
(metadata_table/indexes).
"""
