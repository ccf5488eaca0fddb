"""Reading through the data source: each task reads one or some slices of the table.

Filters that Spark pushes down leave out slices and rows that cannot match. Spark applies each
filter again, so the reader ignores a filter that means something else to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource as ds
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hoodoo.errors import InputError, SchemaMismatch
from hoodoo.model.predicate import All, Compare, In, IsNull, Predicate, negate
from hoodoo.read.base_files import ReadRule, SliceReadTask
from hoodoo.read.scan import ScanSelection, read_slice_pieces, slice_reads
from hoodoo.read.snapshot import partition_pruner
from hoodoo.rows.filter import to_predicate
from hoodoo.spark.placement import balance_loads
from hoodoo.spark.schema import to_spark
from hoodoo.spark.session.workers import tune_worker

# -- readers ---------------------------------------------------------------------------------------


_MOST_TASKS = 256


class TableReader(DataSourceReader):
    """Reads the slices of a selection, one or some in each task."""

    def __init__(self, selection: ScanSelection, spark_schema: pa.Schema) -> None:
        self._selection = selection
        self._declared = spark_schema

    def partitions(self) -> list[InputPartition]:
        """Slices in loads of about equal size."""
        selection = self._selection
        reads = slice_reads(selection.snapshot, selection.rule, selection.slices)
        loads = balance_loads([read.slice.size_bytes for read in reads], most=_MOST_TASKS)
        return [InputPartition([reads[number] for number in load]) for load in loads]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one load.

        Where there is nothing to read Spark gives None, or from 4.3 on a partition with None in it.
        """
        return read_load((partition and partition.value) or (), self._declared)

    def __getstate__(self) -> dict[str, Any]:
        # A task learns from its partition what to read.
        return {"_declared": self._declared}


def read_load(reads: Sequence[SliceReadTask], result_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some slices, in the schema that Spark expects."""
    tune_worker()
    for read in reads:
        for rows in read_slice_pieces(read):
            yield from _cast_to_declared(to_spark(rows), result_schema).to_batches()


def _cast_to_declared(rows: pa.Table, result_schema: pa.Schema) -> pa.Table:
    """Rows in the schema that Spark expects, which may say NOT NULL if the user gave it."""
    try:
        return rows if rows.schema == result_schema else rows.cast(result_schema)
    except (ValueError, pa.ArrowException) as error:
        raise SchemaMismatch(f"rows do not fit the schema given for reading: {error}") from None


def add_terms(rule: ReadRule, *terms: Predicate) -> ReadRule:
    """A rule that reads only those rows for which these terms are true as well."""
    present = () if rule.filter is None else (rule.filter,)
    return replace(rule, filter=All((*present, *terms)))


# -- filters that Spark pushes down ----------------------------------------------------------------


_OPERATORS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
}


class PushingReader(TableReader):
    """A reader that leaves out partitions, row groups and rows by what Spark filters."""

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:  # noqa: N802 - Spark's name
        """Take what can be taken; all are given back, for Spark to look once more."""
        self._selection = narrow_selection(self._selection, filters)
        return filters


def narrow_selection(selection: ScanSelection, filters: Iterable[ds.Filter]) -> ScanSelection:
    """A selection that lacks nothing for which all these filters are true."""
    snapshot, rule = selection.snapshot, selection.rule
    terms = tuple(_translate_filters(filters, rule.schema))
    if not terms:
        return selection
    keep = partition_pruner(All(terms), snapshot.ref.properties.keys, rule.schema)
    slices = tuple(each for each in selection.slices if keep(each.group.partition, whole=True))
    return replace(selection, rule=add_terms(rule, *terms), slices=slices)


def _translate_filters(filters: Iterable[ds.Filter], schema: pa.Schema) -> Iterator[Predicate]:
    for each in filters:
        term = _translate_filter(each, schema)
        if term is not None:
            try:
                yield to_predicate(term, schema)
            except InputError:  # a value that the column's type does not have
                continue


def _translate_filter(pushed_filter: ds.Filter, schema: pa.Schema) -> Predicate | None:
    """The same condition as Arrow applies it; None if it is none."""
    if isinstance(pushed_filter, ds.Not):
        child = _translate_filter(pushed_filter.child, schema)
        return None if child is None else negate(child)
    path: tuple[str, ...] = getattr(pushed_filter, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column, value = path[0], getattr(pushed_filter, "value", None)
    if isinstance(pushed_filter, ds.IsNull | ds.IsNotNull):
        return IsNull(column, is_negated=isinstance(pushed_filter, ds.IsNotNull))
    if pt.is_floating(schema.field(column).type):
        return None  # to Spark NaN is the largest number, and equal to itself
    if isinstance(pushed_filter, ds.In):
        return In(column, tuple(value or ()))
    if isinstance(pushed_filter, ds.EqualNullSafe) and value is None:
        return IsNull(column)
    operator = _OPERATORS.get(type(pushed_filter))
    return None if operator is None else Compare(column, operator, value)
