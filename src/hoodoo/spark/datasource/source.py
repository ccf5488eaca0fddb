"""The data source `hoodoo`: tables as Spark's own readers and writers know sources.

Spark makes a source and asks for its schema in a process of its own, pickles it, and has it make a
reader in other processes, whenever a query is planned. What is read is settled with the schema, so
that all uses of a DataFrame see the same rows; if the user gives a schema, with each query.

A table may be in Spark's own catalog: `CREATE TABLE trips USING hoodoo LOCATION '...'`. Spark tells
a Python source the location once, when the table is made and its columns are asked for. A query
gets a source without options, and hands it the columns of the catalog. So the options travel with
the first of these columns, in its metadata. Writes do not use them: Spark hands a writer the
metadata of the rows' own columns, which may have come from another table.
"""

from __future__ import annotations

import json
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
from pyspark.sql.types import StructField, StructType

from hoodoo.errors import InputError, NoSuchTable, SchemaMismatch, UnsupportedFeature
from hoodoo.read.change_feed.incremental import select_changes
from hoodoo.read.scan import ScanSelection, build_scan_rule, select_slices
from hoodoo.runtime.engine import LocalEngine
from hoodoo.spark.datasource.read import TableReader
from hoodoo.spark.datasource.stream_source import MAX_COMMITS, follow_changes
from hoodoo.spark.schema import arrow_schema, spark_schema
from hoodoo.table.ref import TableRef, open_ref

# -- tables of Spark's catalog: options in column metadata -----------------------------------------


_METADATA = "hoodoo.options"
_PROVIDER = "provider"
_OPTION = "option."
_OWN_PREFIXES = ("hoodie.", "hoodoo.")


def options_of_new_table(
    options: Mapping[str, str], about_rows: frozenset[str]
) -> dict[str, str] | None:
    """The options of a table that Spark's catalog makes, without its notes; None if it makes none.

    Metadata of columns goes wherever rows go, into files too, so that nothing else is kept in it:
    options of a store's client may be secrets.
    """
    if _PROVIDER not in options:
        return None
    table_options = {
        k.removeprefix(_OPTION): v for k, v in options.items() if k.startswith(_OPTION)
    }
    table_options.pop("path", None)  # the catalog's own is absolute
    for name in table_options:
        if name not in about_rows and not name.startswith(_OWN_PREFIXES):
            raise InputError(
                f"option {name!r} cannot be kept in Spark's catalog: set it in the environment of "
                "Spark's Python processes, or read by a temporary view"
            )
    if "path" in options:
        table_options["path"] = options["path"]
    return table_options


def attach_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Columns for the catalog, the first of which carries the options."""
    first, *others = schema.fields
    metadata = {**first.metadata, _METADATA: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def attached_options(schema: StructType) -> dict[str, str]:
    """The options that columns of the catalog carry; none if they are not of the catalog."""
    for field in schema:
        if _METADATA in field.metadata:
            options: dict[str, str] = json.loads(field.metadata[_METADATA])
            return options
    return {}


# -- the data source -------------------------------------------------------------------------------


_ABOUT_ROWS = ("as_of", "mode", "columns", "filter", "since", "until", MAX_COMMITS)
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class TableSource(DataSource):
    """Tables of hoodoo: `spark.read`, `spark.readStream` and `df.write` with `format("hoodoo")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._selection: ScanSelection | None = None

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
        selection, result_schema = _select_columns(source_selection, schema), arrow_schema(schema)
        if _may_push_filters():
            from hoodoo.spark.datasource.read import PushingReader  # not in Spark 4.0

            return PushingReader(selection, result_schema)
        return TableReader(selection, result_schema)

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
        raise UnsupportedFeature(
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
            raise UnsupportedFeature(
                f"mode overwrite is not for this source: with hoodoo.open_table({ref.uri!r}), use "
                "table.insert_overwrite(df) to replace the partitions that occur in df, "
                "table.insert_overwrite_table(df) to replace all rows, table.upsert(df) to update"
            )
        if about_rows:
            raise InputError(f"option {min(about_rows)!r} is for reading")
        from hoodoo.spark.datasource.append import begin_append

        return begin_append(ref, schema)

    def _options_for(self, schema: StructType) -> dict[str, str]:
        """The options of a read, those of a table of Spark's catalog included."""
        schema_options = attached_options(schema)
        if schema_options and "columns" in self.options:
            raise InputError("option 'columns' is for CREATE TABLE: name columns in SELECT")
        return {**schema_options, **self.options}


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
        raise UnsupportedFeature(f"{ref.uri} is in the memory of one process, which is not Spark's")
    return ref, about_rows


def _select_rows(ref: TableRef, about_rows: Mapping[str, str]) -> ScanSelection:
    read_options = {name: text for name, text in about_rows.items() if name != MAX_COMMITS}
    names = read_options.pop("columns", None)
    columns = None if names is None else [name.strip() for name in names.split(",")]
    if "since" not in read_options and "until" not in read_options:
        return select_slices(
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


def _select_columns(selection: ScanSelection, columns: StructType) -> ScanSelection:
    """The selection in the columns of a schema, which must have the table's types."""
    rule = build_scan_rule(selection.snapshot, columns=columns.names, filter=selection.rule.filter)
    subset = replace(selection, rule=rule)
    for stored_field, column in zip(spark_schema(subset.schema), columns, strict=True):
        types = stored_field.dataType.simpleString(), column.dataType.simpleString()
        if types[0] != types[1]:
            raise SchemaMismatch(f"column {stored_field.name} is {types[0]}, not {types[1]}")
    return subset


def _may_push_filters() -> bool:
    """Whether Spark asks for a reader in order to push filters down.

    A reader that can take filters is refused by sessions that do not push any, which is the
    default. They that do ask in a process of another kind: its name is the only thing that tells.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)
