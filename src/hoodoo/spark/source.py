"""The data source `hoodoo`: tables as Spark's own readers and writers know sources.

Spark makes a source and asks for its schema in a process of its own, pickles it, and has it make a
reader in other processes, whenever a query is planned. What is read is settled with the schema, so
that all uses of a DataFrame see the same rows; if the user gives a schema, with each query.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from hoodoo.errors import InputError, NoSuchTable, SchemaMismatch, Unsupported
from hoodoo.rows.filter import as_predicate
from hoodoo.spark.schema import arrow_schema, spark_schema
from hoodoo.spark.source_read import TableReader, also
from hoodoo.table.changes import select_changes
from hoodoo.table.read import Selection, read_rule
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.scan import select

_ABOUT_ROWS = ("as_of", "mode", "columns", "filter", "since", "until")
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class TableSource(DataSource):
    """Tables of hoodoo: `spark.read.format("hoodoo")`, `df.write.format("hoodoo")`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._chosen: Selection | None = None

    @classmethod
    def name(cls) -> str:
        return "hoodoo"

    def schema(self) -> StructType:
        """The columns that the options ask for, or all, meta columns included."""
        found = _selection(*_opened(self.options))
        self._chosen = replace(found, snapshot=replace(found.snapshot, groups=()))
        return spark_schema(found.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema`, which are those of `schema()` or named by the user."""
        found = self._chosen or _selection(*_opened(self.options))
        self._chosen = None  # from here on the source only travels along with each task
        chosen, declared = _in_columns(found, schema), arrow_schema(schema)
        if _may_push_filters():
            from hoodoo.spark.pushdown import PushingReader  # not in Spark 4.0

            return PushingReader(chosen, declared)
        return TableReader(chosen, declared)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Begins a bulk insert."""
        try:
            ref, about_rows = _opened(self.options)
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


def _opened(options: Mapping[str, str]) -> tuple[TableRef, dict[str, str]]:
    """The table that the options name, and what they say of the rows to read."""
    given = dict(options)
    if "paths" in given or "path" not in given:
        raise InputError("one path is needed: that of the table")
    place = given.pop("path")
    about_rows = {name: given.pop(name) for name in _ABOUT_ROWS if name in given}
    ref = open_ref(place, given)
    if ref.uri.startswith("memory:"):
        raise Unsupported(f"{ref.uri} is in the memory of one process, which is not Spark's")
    return ref, about_rows


def _selection(ref: TableRef, about_rows: Mapping[str, str]) -> Selection:
    given = dict(about_rows)
    names = given.pop("columns", None)
    columns = None if names is None else [name.strip() for name in names.split(",")]
    if "since" not in given and "until" not in given:
        return select(ref, columns=columns, **given)
    condition = given.pop("filter", None)
    since, until = given.pop("since", None), given.pop("until", None)
    if since is None or given:
        raise InputError("changes are asked for by since, until, columns and filter")
    chosen = select_changes(ref, since=since, until=until, columns=columns)
    if condition is None:
        return chosen
    return replace(chosen, rule=also(chosen.rule, as_predicate(condition, chosen.rule.schema)))


def _in_columns(chosen: Selection, wanted: StructType) -> Selection:
    """The selection in the columns of a schema, which must have the table's types."""
    rule = read_rule(chosen.snapshot, columns=wanted.names, filter=chosen.rule.filter)
    narrowed = replace(chosen, rule=rule)
    for there, asked in zip(spark_schema(narrowed.schema), wanted, strict=True):
        types = there.dataType.simpleString(), asked.dataType.simpleString()
        if types[0] != types[1]:
            raise SchemaMismatch(f"column {there.name} is {types[0]}, not {types[1]}")
    return narrowed


def _may_push_filters() -> bool:
    """Whether Spark asks for a reader in order to push filters down.

    A reader that can take filters is refused by sessions that do not push any, which is the
    default. They that do ask in a process of another kind: its name is the only thing that tells.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)
