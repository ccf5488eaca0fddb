"""The calls of `Table` that read rows in this process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from hoodoo.table.read import Selection


class ReadCalls:
    """What users read without Spark."""

    _ref: TableRef
    _engine: Engine

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
        from hoodoo.table.stream import open_batches

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
        from hoodoo.table.stream import first_rows

        if n < 0:
            raise InputError(f"head takes a number of rows, not {n}")
        return first_rows(self._select(columns, filter, as_of, mode, meta=meta), n)

    def count(self, filter: Any = None, as_of: str | date | None = None) -> int:
        """How many rows there are, or match.

        Without a filter, footers of base files tell; slices with logs are read, one column of them.

            >>> table.count(), table.count(filter="fare > 18")
            (3, 2)
        """
        from hoodoo.table.stream import count_rows, key_columns

        selection = self._select(key_columns(self._ref), filter, as_of, "snapshot")
        return count_rows(selection, self._engine)

    def _select(
        self,
        columns: Sequence[str] | None,
        filter: Any,
        as_of: str | date | None,
        mode: str,
        *,
        meta: bool = True,
    ) -> Selection:
        from hoodoo.table.scan import select

        return select(
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
