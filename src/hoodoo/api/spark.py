"""Streams of Spark into tables: `stream_to`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hoodoo.api.create import open_table
from hoodoo.api.table import Table
from hoodoo.storage.uri import PathText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hoodoo.spark.datasource.stream_sink import StreamOptions, WriteBatch


def stream_to(table: Table | PathText, **how: Unpack[StreamOptions]) -> WriteBatch:
    """A function for `foreachBatch` that writes each micro-batch of a stream exactly once.

        rows.writeStream.foreachBatch(hoodoo.stream_to("/data/trips", operation="upsert"))

    `app` tells the stream from others that write to the table; by default it is the id of the
    query, which it keeps as long as it keeps its checkpoint.
    """
    from hoodoo.spark.datasource.stream_sink import make_batch_writer

    return make_batch_writer(table if isinstance(table, Table) else open_table(table), **how)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """A builder of Spark sessions with the settings that make hoodoo's writes and reads fast.

        spark = hoodoo.configure(SparkSession.builder.master("local[2]")).getOrCreate()

    Workers run this Python (unless `PYSPARK_PYTHON` names another), are forked from a process that
    has hoodoo imported, and get rows through Unix sockets (Spark 4.1 on). What is set in the
    builder already, or later, wins. A session without these settings works too, only slower.
    """
    from hoodoo.spark.session.configure import configure as with_settings

    return with_settings(builder)


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("hoodoo")` and `df.write.format("hoodoo")` known to a session.

    >>> hoodoo.register(spark)
    >>> spark.read.format("hoodoo").load("trips").count()
    3
    """
    from hoodoo.spark.datasource.register import register as make_known

    make_known(spark)
