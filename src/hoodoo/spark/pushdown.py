"""Filters that Spark pushes down to the data source: they leave out what cannot match.

Spark applies each of them again, so that a filter which means something else to Arrow may simply
be passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource as ds

from hoodoo.errors import InputError
from hoodoo.model.predicate import All, Compare, In, IsNull, Predicate, negate
from hoodoo.rows.filter import to_predicate
from hoodoo.spark.source_read import TableReader, add_terms
from hoodoo.table.read import Selection
from hoodoo.table.snapshot import partition_pruner

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


def narrow_selection(selection: Selection, filters: Iterable[ds.Filter]) -> Selection:
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
        negated = _translate_filter(pushed_filter.child, schema)
        return None if negated is None else negate(negated)
    path: tuple[str, ...] = getattr(pushed_filter, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column, value = path[0], getattr(pushed_filter, "value", None)
    if isinstance(pushed_filter, ds.IsNull | ds.IsNotNull):
        return IsNull(column, negated=isinstance(pushed_filter, ds.IsNotNull))
    if pt.is_floating(schema.field(column).type):
        return None  # to Spark NaN is the largest number, and equal to itself
    if isinstance(pushed_filter, ds.In):
        return In(column, tuple(value or ()))
    if isinstance(pushed_filter, ds.EqualNullSafe) and value is None:
        return IsNull(column)
    operator = _OPERATORS.get(type(pushed_filter))
    return None if operator is None else Compare(column, operator, value)
