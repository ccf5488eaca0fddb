"""Avro: container files, schemas, and records decoded to whole Arrow columns.

Read in this order:
    `container`  container files with one record, as timeline files are; checks foreign schemas
    `schema`     Avro schema JSON -> a tree of types, each with its Arrow type
    `decode`     binary records -> Arrow columns, all records at once
    `encode`     Arrow columns -> binary records, with the bytes that Avro for Java writes
    `rows`       the two directions together, for data blocks of log files

In: bytes and schema JSON. Out: Python records (`container`) or Arrow tables (`rows`).
Not here: table schemas between Avro and Arrow (format/schema), the records of timeline files
(format/timeline/records).
"""
