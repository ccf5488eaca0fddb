"""Reading through the data source: slices of the table, one or some in each task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from hoodoo.model.predicate import All, Predicate
from hoodoo.spark.merged import balanced
from hoodoo.spark.schema import to_spark
from hoodoo.spark.worker import settle
from hoodoo.table.base import ReadRule
from hoodoo.table.read import Selection, slice_pieces, slice_reads

_MOST_TASKS = 256


class TableReader(DataSourceReader):
    """Reads the slices of a selection, one or some in each task."""

    def __init__(self, chosen: Selection) -> None:
        self._chosen = chosen

    def partitions(self) -> list[InputPartition]:
        """Slices in loads of about equal size."""
        chosen = self._chosen
        reads = slice_reads(chosen.snapshot, chosen.rule, chosen.slices)
        loads = balanced([read.slice.size_bytes for read in reads], most=_MOST_TASKS)
        return [InputPartition([reads[number] for number in load]) for load in loads]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one load.

        Where there is nothing to read Spark gives None, or from 4.3 on a partition with None in it.
        """
        settle()
        for task in (partition and partition.value) or ():
            for rows in slice_pieces(task):
                yield from to_spark(rows).to_batches()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a task learns from its partition what to read


def also(rule: ReadRule, *terms: Predicate) -> ReadRule:
    """A rule that reads only those rows for which these terms are true as well."""
    given = () if rule.filter is None else (rule.filter,)
    return replace(rule, filter=All((*given, *terms)))
