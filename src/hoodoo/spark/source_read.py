"""Reading through the data source: slices of the table, one or some in each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hoodoo.errors import SchemaMismatch
from hoodoo.model.predicate import All, Predicate
from hoodoo.spark.python_scan import balance_loads
from hoodoo.spark.schema import to_spark
from hoodoo.spark.worker import settle
from hoodoo.table.read import Selection, read_slice_pieces, slice_reads
from hoodoo.table.read_rule import ReadRule, SliceRead

_MOST_TASKS = 256


class TableReader(DataSourceReader):
    """Reads the slices of a selection, one or some in each task."""

    def __init__(self, selection: Selection, declared: pa.Schema) -> None:
        self._selection = selection
        self._declared = declared

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


def read_load(reads: Sequence[SliceRead], declared: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some slices, in the schema that Spark expects."""
    settle()
    for read in reads:
        for rows in read_slice_pieces(read):
            yield from _cast_to_declared(to_spark(rows), declared).to_batches()


def _cast_to_declared(rows: pa.Table, declared: pa.Schema) -> pa.Table:
    """Rows in the schema that Spark expects, which may say NOT NULL if the user gave it."""
    try:
        return rows if rows.schema == declared else rows.cast(declared)
    except (ValueError, pa.ArrowException) as error:
        raise SchemaMismatch(f"rows do not fit the schema given for reading: {error}") from None


def add_terms(rule: ReadRule, *terms: Predicate) -> ReadRule:
    """A rule that reads only those rows for which these terms are true as well."""
    present = () if rule.filter is None else (rule.filter,)
    return replace(rule, filter=All((*present, *terms)))
