"""The data source `hoodoo`: tables as Spark's own readers and writers know sources.

Spark makes a source and asks for its schema in a process of its own, pickles it, and has it make a
reader in other processes, whenever a query is planned. What is read is settled with the schema, so
that all uses of a DataFrame see the same rows; if the user gives a schema, with each query.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from hoodoo.engine.local import LocalEngine
from hoodoo.errors import InputError, NoSuchTable, SchemaMismatch, Unsupported
from hoodoo.spark.catalog_table import attach_options, attached_options, options_of_new_table
from hoodoo.spark.schema import arrow_schema, spark_schema
from hoodoo.spark.source_read import TableReader
from hoodoo.spark.stream_source import MAX_COMMITS, follow_changes
from hoodoo.table.changes import select_changes
from hoodoo.table.read import Selection, read_rule
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.scan import select

_ABOUT_ROWS = ("as_of", "mode", "columns", "filter", "since", "until", MAX_COMMITS)
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class TableSource(DataSource):
    """Tables of hoodoo: `spark.read`, `spark.readStream` and `df.write` with `format("hoodoo")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._selection: Selection | None = None

    @classmethod
    def name(cls) -> str:
        return "hoodoo"

    def schema(self) -> StructType:
        """The columns that the options ask for, or all, meta columns included."""
        for_catalog = options_of_new_table(self.options, frozenset(_ABOUT_ROWS))
        options = self.options if for_catalog is None else for_catalog
        selection = _select_rows(*_open_table(options))  # a stream begins like a batch
        columns = spark_schema(selection.schema)
        if for_catalog is not None:  # each query looks at the table anew
            return attach_options(columns, for_catalog)
        self._selection = replace(selection, snapshot=replace(selection.snapshot, groups=()))
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema`, which are those of `schema()` or named by the user."""
        if MAX_COMMITS in self.options:
            raise InputError(f"option {MAX_COMMITS!r} is for spark.readStream")
        source_selection = self._selection or _select_rows(*_open_table(self._options_for(schema)))
        self._selection = None  # from here on the source only travels along with each task
        selection, declared = _select_columns(source_selection, schema), arrow_schema(schema)
        if _may_push_filters():
            from hoodoo.spark.pushdown import PushingReader  # not in Spark 4.0

            return PushingReader(selection, declared)
        return TableReader(selection, declared)

    def streamReader(  # noqa: N802  # the name is Spark's
        self, schema: StructType
    ) -> DataSourceStreamReader:
        """Follows the table by completion time."""
        self._selection = None
        ref, about_rows = _open_table(self._options_for(schema))
        return follow_changes(ref, about_rows, schema, _select_columns)

    def streamWriter(  # noqa: N802  # the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """There is none: Spark would hand it rows without a DataFrame, which upserts need."""
        raise Unsupported(
            "writeStream.format is not for this source: use "
            'writeStream.foreachBatch(hoodoo.stream_to(path, operation="upsert"))'
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Begins a bulk insert."""
        if "path" not in self.options:
            raise InputError(
                "Spark does not tell which table: name it, as in "
                "INSERT INTO trips WITH (path = '/data/trips') ...; "
                "a new table is made by hoodoo.create_table(...)"
            )
        try:
            ref, about_rows = _open_table(self.options)
        except NoSuchTable as error:
            reason = "an append makes none; create it first, by hoodoo.create_table(...)"
            raise NoSuchTable(error.uri, reason) from None
        if overwrite:
            raise Unsupported(
                f"mode overwrite is not for this source: with hoodoo.open_table({ref.uri!r}), use "
                "table.insert_overwrite(df) to replace the partitions that occur in df, "
                "table.insert_overwrite_table(df) to replace all rows, table.upsert(df) to update"
            )
        if about_rows:
            raise InputError(f"option {min(about_rows)!r} is for reading")
        from hoodoo.spark.source_write import begin_append

        return begin_append(ref, schema)

    def _options_for(self, schema: StructType) -> dict[str, str]:
        """The options of a read, those of a table of Spark's catalog included."""
        attached = attached_options(schema)
        if attached and "columns" in self.options:
            raise InputError("option 'columns' is for CREATE TABLE: name columns in SELECT")
        return {**attached, **self.options}


def _open_table(options: Mapping[str, str]) -> tuple[TableRef, dict[str, str]]:
    """The table that the options name, and what they say of the rows to read."""
    table_options = dict(options)
    if "paths" in table_options or "path" not in table_options:
        raise InputError(
            "one path is needed: that of the table. In SQL, a table is told by "
            "CREATE TABLE trips USING hoodoo LOCATION '/data/trips', without columns"
        )
    place = table_options.pop("path")
    about_rows = {name: table_options.pop(name) for name in _ABOUT_ROWS if name in table_options}
    ref = open_ref(place, table_options)
    if ref.uri.startswith("memory:"):
        raise Unsupported(f"{ref.uri} is in the memory of one process, which is not Spark's")
    return ref, about_rows


def _select_rows(ref: TableRef, about_rows: Mapping[str, str]) -> Selection:
    read_options = {name: text for name, text in about_rows.items() if name != MAX_COMMITS}
    names = read_options.pop("columns", None)
    columns = None if names is None else [name.strip() for name in names.split(",")]
    if "since" not in read_options and "until" not in read_options:
        return select(
            ref,
            columns=columns,
            filter=read_options.get("filter"),
            as_of=read_options.get("as_of"),
            mode=read_options.get("mode", "snapshot"),
            engine=LocalEngine(),
        )
    condition = read_options.pop("filter", None)
    since, until = read_options.pop("since", None), read_options.pop("until", None)
    if since is None or read_options:
        raise InputError("changes are asked for by since, until, columns and filter")
    return select_changes(ref, since=since, until=until, columns=columns, filter=condition)


def _select_columns(selection: Selection, columns: StructType) -> Selection:
    """The selection in the columns of a schema, which must have the table's types."""
    rule = read_rule(selection.snapshot, columns=columns.names, filter=selection.rule.filter)
    narrowed = replace(selection, rule=rule)
    for stored, requested in zip(spark_schema(narrowed.schema), columns, strict=True):
        types = stored.dataType.simpleString(), requested.dataType.simpleString()
        if types[0] != types[1]:
            raise SchemaMismatch(f"column {stored.name} is {types[0]}, not {types[1]}")
    return narrowed


def _may_push_filters() -> bool:
    """Whether Spark asks for a reader in order to push filters down.

    A reader that can take filters is refused by sessions that do not push any, which is the
    default. They that do ask in a process of another kind: its name is the only thing that tells.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)
