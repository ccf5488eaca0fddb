"""The interface that users hold: `create_table`, `open_table`, and `Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.api.table import Table
from hoodoo.config.metadata_table import METADATA_ENABLE
from hoodoo.errors import TableExists
from hoodoo.runtime.engine import LocalEngine, is_of_spark
from hoodoo.storage.uri import PathText, path_text
from hoodoo.table.ref import open_ref

if TYPE_CHECKING:
    from hoodoo.services.upgrade.upgrade import UpgradeResult


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
    exist_ok: bool = False,
) -> Table:
    """Create a table; `schema` is a pyarrow.Schema, a frame, Avro JSON, or a Spark StructType.

    With `exist_ok`, a table that is there already is opened, if it has the same record key,
    partition fields, ordering and type; else `TableExists` says what is different. It has a
    metadata table, unless `hoodie.metadata.enable` is false in its options.
    Order: that of `table.create.create_table`; that of `add_metadata_partitions`, under the table's
    lock.
    Crash: in between, a table without a metadata table; it can be written, and given one later.

        >>> schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        >>> days = hoodoo.create_table("days", schema=schema, record_key="id", partition_by="day")
        >>> hoodoo.create_table(
        ...     "days", schema=schema, record_key="id", partition_by="day", exist_ok=True
        ... ).count()
        0
    """
    from hoodoo.table.create import create_table as create
    from hoodoo.table.create import open_fitting

    try:
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
    except TableExists:
        if not exist_ok:
            raise
        present = open_fitting(
            path_text(path),
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            options=options,
        )
        return Table(present)
    if ref.options.get(METADATA_ENABLE):
        from hoodoo.services.indexing.create import (
            add_metadata_partitions,
            default_metadata_partitions,
        )

        ref = add_metadata_partitions(ref, LocalEngine(), *default_metadata_partitions(ref))
    return Table(ref)


def open_table(path: PathText, options: Mapping[str, object] | None = None) -> Table:
    """Open a table that hoodoo or Apache Hudi wrote (versions 6, 8 and 9 to read, 9 to write).

    >>> hoodoo.open_table("trips").schema.names
    ['id', 'city', 'fare', 'ts']
    """
    return Table(open_ref(path_text(path), options))


def upgrade_table(
    path: PathText, options: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> UpgradeResult:
    """Bring a table of version 6 or 8 to version 9; what `Table.upgrade` says.

    Of tables of other versions it says what to do with them.

        >>> hoodoo.upgrade_table("trips", dry_run=True).to_version
        9
    """
    from hoodoo.services.upgrade.upgrade import open_old, upgrade

    return upgrade(open_old(path_text(path), options), dry_run=dry_run)


def _arrow_schema(schema: Any) -> Any:
    if is_of_spark(schema) and hasattr(schema, "schema"):
        schema = schema.schema  # of a DataFrame
    if hasattr(schema, "jsonValue"):  # a Spark StructType; pyspark is imported only if it is there
        from hoodoo.spark.schema import arrow_schema

        return arrow_schema(schema)
    from hoodoo.rows.incoming import schema_to_arrow

    return schema_to_arrow(schema)
