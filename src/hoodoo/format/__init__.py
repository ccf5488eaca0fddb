"""Bytes to values and back: one module or folder for each file format of a table.

Read in this order:
    `schema`          table schemas: Avro JSON on disk, Arrow in memory
    `arrow_types`     the Arrow types that a column may have; other types are brought to these
    `properties`      Java properties: hoodie.properties, .hoodie_partition_metadata
    `timeline/`       files of instants, active and archived
    `avro/`           containers, schemas, and records <-> Arrow columns
    `parquet/`        base files: rows, footers, statistics, bloom filters
    `log/`            log files: blocks of rows, deletes and commands
    `hfile/`          sorted keys and values, as the metadata table keeps them
    `metadata_table/` entries of each partition of the metadata table
    `markers`         batches of markers; completion and finalize markers
    `json_files`      small JSON files: head, heartbeat, lease, index definitions
    `xxhash`          XXH64, which the metadata table makes ids with

In: bytes, or a file object that the caller has opened. Out: values of model, Arrow tables, bytes.
If the bytes are damaged, a function raises `FormatError`, which names the file.
Not here: opening files and deciding which files to read (read, table, metadata_table); merging rows
(rows). docs/format has one page for each format.
"""
