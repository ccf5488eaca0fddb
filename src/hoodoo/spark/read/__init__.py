"""Tables as DataFrames: base files by Spark's reader, slices with logs by Python workers.

Read in this order:
    `read`         `read.read`: what a user asks for -> a DataFrame
    `native_scan`  base files that Spark may read itself, and whether it may
    `python_scan`  slices that Python workers read with Arrow
    `filter`       filters as Spark columns
    `changes`      incremental reads and change feed as DataFrames
    `input_files`  files to load (CSV, JSON, Parquet) as DataFrames

In: a `TableRef`, a session, columns, a filter. Out: a DataFrame.
Not here: choosing slices (read/scan, read/snapshot), format("hoodoo") (spark/datasource). Rows do
not pass through the driver.
"""
