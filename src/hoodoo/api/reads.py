"""The calls of `Table` that read rows in this process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, overload

from hoodoo.api.handle import TableCalls
from hoodoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.read.scan import ScanSelection


class TableReads(TableCalls):
    """The calls that read rows."""

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        as_of: str | date | None = None,
        mode: str = "snapshot",
    ) -> pa.Table:
        """The rows, meta columns included unless `columns` says otherwise.

        `filter` is SQL text, pyarrow filter tuples, or a pyarrow expression; `as_of` an instant
        or a time, in the table's time zone unless it has an offset; `mode` "snapshot", or
        "read_optimized": base files only, without logs.

            >>> table.to_arrow(columns=["id", "fare"], filter="fare > 20").to_pylist()
            [{'id': 2, 'fare': 27.7}]
        """
        return self._select(columns, filter, as_of, mode).read(self._engine)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        as_of: str | date | None = None,
        mode: str = "snapshot",
        *,
        meta: bool = False,
    ) -> pd.DataFrame:
        """The rows as a pandas frame; meta columns only if asked for. Arguments as of `to_arrow`.

        >>> table.to_pandas(filter="city = 'oslo'")
           id  city   fare  ts
        0   3  oslo  17.85   1
        """
        selection = self._select(columns, filter, as_of, mode, meta=meta)
        return selection.read(self._engine).to_pandas()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        as_of: str | date | None = None,
        mode: str = "snapshot",
    ) -> pa.RecordBatchReader:
        """The rows as a stream, file after file: never all of them in memory. As `to_arrow`.

        The stream is of the table as it was at this call. Files that a clean deletes meanwhile
        are an error of the stream.

            >>> sum(batch.num_rows for batch in table.to_batches(columns=["id"]))
            3
        """
        from hoodoo.read.scan import open_batches

        return open_batches(self._select(columns, filter, as_of, mode))

    def head(
        self,
        n: int = 5,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        as_of: str | date | None = None,
        mode: str = "snapshot",
        *,
        meta: bool = False,
    ) -> pa.Table:
        """At most `n` rows, in no particular order; no more is read than they need.

        Meta columns only if asked for. Arguments as of `to_arrow`.

            >>> table.head(2, columns=["id"]).num_rows
            2
        """
        from hoodoo.read.scan import first_rows

        if n < 0:
            raise InputError(f"head takes a number of rows, not {n}")
        return first_rows(self._select(columns, filter, as_of, mode, meta=meta), n)

    def count(self, filter: Any = None, as_of: str | date | None = None) -> int:
        """How many rows there are, or match.

        Without a filter, footers of base files tell; slices with logs are read, one column of them.

            >>> table.count(), table.count(filter="fare > 18")
            (3, 2)
        """
        from hoodoo.read.scan import count_rows, key_columns

        selection = self._select(key_columns(self._ref), filter, as_of, "snapshot")
        return count_rows(selection, self._engine)

    def read(
        self,
        spark: SparkSession,
        as_of: str | date | None = None,
        mode: str = "snapshot",
        columns: Sequence[str] | None = None,
        filter: Any = None,
    ) -> DataFrame:
        """The rows as a DataFrame of a Spark session; arguments as those of `to_arrow`.

        Base files without logs are read by Spark itself, so that columns and filters of the
        DataFrame are pushed down; `columns` and `filter` reach slices with logs as well.

            table.read(spark, filter="city = 'sf'").groupBy("city").count().show()
        """
        from hoodoo.spark.read.read import read

        return read(
            self._ref, spark, columns=columns, filter=filter, as_of=moment_text(as_of), mode=mode
        )

    @overload
    def changes(
        self,
        spark: None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> pa.Table: ...
    @overload
    def changes(
        self,
        spark: SparkSession,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> DataFrame: ...
    def changes(
        self,
        spark: SparkSession | None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> pa.Table | DataFrame:
        """Rows changed after `since` (an instant, a time, "earliest"), up to and with `until`.

            table.changes(since=first.instant, deletes=True)

        Without `deletes`, the rows written, as they are at the end. With `deletes`, what became of
        each row: a column `_change_type` says `insert`, `update_postimage` or `delete`, and
        `before` adds the rows before updates, `update_preimage`. A time without an offset is in the
        table's zone. With a Spark session the rows come as a DataFrame, else as an Arrow table.
        """
        begin, end = moment_text(since), moment_text(until)
        if begin is None:
            raise InputError("changes needs `since`")
        if before and not deletes:
            raise InputError("before=True needs deletes=True")
        if spark is not None:
            from hoodoo.spark.read.changes import read_changes as read_into_spark

            return read_into_spark(
                self._ref,
                spark,
                since=begin,
                until=end,
                columns=columns,
                filter=filter,
                deletes=deletes,
                before=before,
            )
        if deletes:
            from hoodoo.read.change_feed.feed import open_change_feed, read_feed

            selection = open_change_feed(
                self._ref, since=begin, until=end, columns=columns, filter=filter, before=before
            )
            return read_feed(selection, self._engine)
        from hoodoo.read.change_feed.incremental import read_changes

        return read_changes(
            self._ref, self._engine, since=begin, until=end, columns=columns, filter=filter
        )

    def _select(
        self,
        columns: Sequence[str] | None,
        filter: Any,
        as_of: str | date | None,
        mode: str,
        *,
        meta: bool = True,
    ) -> ScanSelection:
        from hoodoo.read.scan import select_slices

        return select_slices(
            self._ref,
            columns=columns,
            filter=filter,
            as_of=moment_text(as_of),
            mode=mode,
            meta=meta,
            engine=self._engine,
        )


def moment_text(moment: str | date | None) -> str | None:
    """An instant, or a time as text."""
    if isinstance(moment, date | datetime):
        return moment.isoformat()
    if moment is None or isinstance(moment, str):
        return moment
    raise InputError(f"{moment!r} is neither an instant nor a time")
