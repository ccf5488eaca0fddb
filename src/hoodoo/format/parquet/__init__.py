"""Parquet base files: rows, footers with Apache Hudi's key-values, statistics, bloom filters.

Read in this order:
    `base_file`      `BaseFileWriter`; opening a file, its rows, columns and footer
    `statistics`     value ranges of row groups, read from the footer
    `bloom_filter`   bloom filters over record keys
    `key_summary`    key bounds and bloom filter of a file, gathered while rows are written
    `column_chunks`  new files out of column chunks that are copied as bytes
    `thrift`         the encoding of footers

In: an opened file or an output stream; Arrow tables. Out: rows, `Footer`, row groups that may
match, and base files.
Not here: which base files are read (read), file names and meta columns (write/files).
"""
