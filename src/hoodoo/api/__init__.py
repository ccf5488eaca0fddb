"""The interface that users hold: `create_table`, `open_table`, and `Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.api.table import Table
from hoodoo.storage.uri import PathText, path_text
from hoodoo.table.ref import open_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Table", "configure", "create_table", "open_table", "register"]


def create_table(
    path: PathText,
    *,
    schema: Any,
    record_key: str | Sequence[str],
    name: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    options: Mapping[str, object] | None = None,
) -> Table:
    """Create a table; `schema` is a pyarrow.Schema, Avro JSON, or a Spark StructType."""
    from hoodoo.table.create import create_table as create

    ref = create(
        path_text(path),
        schema=_arrow_schema(schema),
        record_key=record_key,
        name=name,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        options=options,
    )
    return Table(ref)


def open_table(path: PathText, options: Mapping[str, object] | None = None) -> Table:
    """Open a table that hoodoo or Apache Hudi wrote (versions 6, 8 and 9 to read, 9 to write)."""
    return Table(open_ref(path_text(path), options))


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """A builder of Spark sessions with the settings that make hoodoo's writes and reads fast.

        spark = hoodoo.configure(SparkSession.builder.master("local[2]")).getOrCreate()

    Workers run this Python (unless `PYSPARK_PYTHON` names another), are forked from a process that
    has hoodoo imported, and get rows through Unix sockets (Spark 4.1 on). What is set in the
    builder already, or later, wins. A session without these settings works too, only slower.
    """
    from hoodoo.spark.configure import configure as with_settings

    return with_settings(builder)


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("hoodoo")` and `df.write.format("hoodoo")` known to a session."""
    from hoodoo.spark.ready import register as make_known

    make_known(spark)


def _arrow_schema(schema: Any) -> Any:
    if hasattr(schema, "jsonValue"):  # a Spark StructType; pyspark is imported only if it is there
        from hoodoo.spark.schema import arrow_schema

        return arrow_schema(schema)
    return schema
