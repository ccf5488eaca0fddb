"""The data source hoodoo: Spark's own readers, writers and streams on tables.

Read in this order:
    `register`       makes a session ready, and registers the source
    `source`         `TableSource`: options, schema, tables of Spark's catalog
    `read`           batch reads with pushed filters
    `append`         df.write: a bulk insert whose parts Spark runs anywhere
    `stream_source`  spark.readStream: the changes of each window of completion time
    `stream_sink`    foreachBatch: each micro-batch is written exactly once

In: options and requests of Spark. Out: rows as Arrow batches; commits.
Not here: upserts (spark/write; `stream_sink` calls methods of api), the protocol of an append
(write/detached), windows of changes (read/change_feed). src/pyspark_hoodoo is the name by which
Spark finds the source.
"""
