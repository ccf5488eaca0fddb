"""The indexes of the metadata table: what an action changes in each, and how each is used.

Read in this order:
    `files`          partition files: changes by an action; `MetadataLister` lists data files by it
    `column_stats`   partitions column_stats and partition_stats: entries and deleted keys
    `bloom_filters`  partition bloom_filters: one filter per new base file
    `record_index`   partition record_index: changes; looking up the file group of a key
    `file_facts`     reads ranges and filters of new data files, on an engine
    `data_skipping`  leaves out file slices and partitions in which no row can match a filter

In: new, deleted and stored files; filters and record keys of readers. Out: entries to write;
pruned slices; locations of keys.
Not here: writing the entries (metadata_table/recorder), which keys a commit moved
(write/commit/record_index_changes), building an index (services/indexing), which index a write
uses to find keys (write/index).
"""
