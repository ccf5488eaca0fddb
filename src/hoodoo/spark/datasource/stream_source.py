"""The streaming source: each batch has the rows that changed in a window of completion time.

An offset is the completion time of a commit, or "earliest". Completion times only grow, so a commit
that takes long, and completes after others that were requested later, is in the window in which it
completes: none is missed. A reader lives as long as its query runs, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hoodoo.errors import HoodooError, InputError, TimelineError
from hoodoo.read.change_feed.incremental import select_changes
from hoodoo.read.change_feed.window import EARLIEST, find_completion, load_gapless_timeline
from hoodoo.read.scan import ScanSelection
from hoodoo.spark.datasource.read import TableReader, read_load
from hoodoo.spark.schema import arrow_schema
from hoodoo.table.ref import TableRef

MAX_COMMITS = "max.commits.per.trigger"
"""The option that says how many commits a batch has at most."""
_OPTIONS = frozenset({"columns", "filter", "since", MAX_COMMITS})
_COMPLETION_KEY = "completed"

Narrow: TypeAlias = Callable[[ScanSelection, StructType], ScanSelection]
"""Makes a selection one in the columns of a schema."""


def follow_changes(
    ref: TableRef, options: Mapping[str, str], schema: StructType, narrow: Narrow
) -> ChangeStream:
    """A stream of the changes that the options ask for."""
    others = sorted(options.keys() - _OPTIONS)
    if others:
        raise InputError(f"option {others[0]!r} is not for spark.readStream")
    most_text = options.get(MAX_COMMITS)
    if most_text is not None and (not most_text.isdecimal() or int(most_text) < 1):
        raise InputError(f"option {MAX_COMMITS!r} is a number from 1 on, not {most_text!r}")

    def select_window(after: str, last: str) -> ScanSelection:
        condition = options.get("filter")
        return narrow(select_changes(ref, since=after, until=last, filter=condition), schema)

    most = None if most_text is None else int(most_text)
    since = options.get("since", EARLIEST)
    return ChangeStream(ref, since, most, arrow_schema(schema), select_window)


class ChangeStream(DataSourceStreamReader):
    """Follows a table, from one completion time to the next."""

    def __init__(
        self,
        ref: TableRef,
        since: str,
        most_commits: int | None,
        result_schema: pa.Schema,
        select_window: Callable[[str, str], ScanSelection],
    ) -> None:
        self._ref = ref
        self._since = since
        self._most_commits = most_commits
        self._declared = result_schema
        self._select_window = select_window
        self._position: str | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # the name is Spark's
        """Where a new query begins."""
        since = self._since
        if since.strip().lower() == EARLIEST:
            self._position = EARLIEST
        else:
            self._position = find_completion(self._ref, load_gapless_timeline(self._ref), since)
        return {_COMPLETION_KEY: self._position}

    def latestOffset(self) -> dict[str, str]:  # noqa: N802  # the name is Spark's
        """The newest commit, or as far as one batch may go; the present offset if there is none.

        A query that begins at the earliest has the whole table as its first batch. One that goes
        on has been here before: Spark plans its last batch again first.
        """
        position = self._position or self.initialOffset()[_COMPLETION_KEY]
        timeline = load_gapless_timeline(self._ref)
        ends = sorted(instant.completion_or_requested_time for instant in timeline.commits)
        if position == EARLIEST:
            return {_COMPLETION_KEY: ends[-1] if ends else EARLIEST}
        later = [end for end in ends if end > position][: self._most_commits]
        return {_COMPLETION_KEY: later[-1] if later else position}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The slices that changed between two offsets.

        Of a query that goes on, the last batch is planned whether it is read again or not: what
        cannot be read any more must not fail before somebody wants to read it.
        """
        after, last = start[_COMPLETION_KEY], end[_COMPLETION_KEY]
        is_first, self._position = self._position is None, last
        if after == last:
            return []
        if last == EARLIEST:
            raise TimelineError(f"the commits up to {after} were taken back: start a new query")
        try:
            selection = self._select_window(after, last)
        except TimelineError as error:
            if not is_first:
                raise
            return [InputPartition(error)]
        return TableReader(selection, self._declared).partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one load of slices."""
        if isinstance(partition.value, HoodooError):
            raise partition.value
        return read_load(partition.value, self._declared)

    def commit(self, end: dict[str, str]) -> None:
        """Spark will not ask again for what is before this offset."""
        self._position = end[_COMPLETION_KEY]

    def __getstate__(self) -> dict[str, Any]:
        # A task learns from its partition what to read.
        return {"_declared": self._declared}
