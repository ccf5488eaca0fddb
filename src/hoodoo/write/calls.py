"""The calls of `Table` that write rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from hoodoo.model.commit import OperationType
from hoodoo.model.commit_notes import Notes
from hoodoo.model.progress import OnProgress

if TYPE_CHECKING:
    from hoodoo.write.commit import CommitResult


class WriteCalls:
    """What users do to rows."""

    def _write(
        self, operation: OperationType, rows: Any, progress: OnProgress | None, notes: Notes
    ) -> CommitResult:
        """Write rows, wherever that is done."""
        raise NotImplementedError

    def insert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[Notes]
    ) -> CommitResult:
        """Add rows; keys that are there already are not looked for.

        `rows` of this and the other writes are a pandas, polars or Spark frame, a pyarrow.Table,
        RecordBatch or RecordBatchReader, anything with `__arrow_c_stream__`, or a list of dicts.
        A pandas index is a column if it has a name. Times in nanoseconds are cast to microseconds
        if nothing is lost. `progress` is told of each phase, and of the files done in it.
        `metadata` is noted in the commit, and read back by `history`; of a `transaction` (an
        application, and the number of a batch) nothing is written if that batch is committed.

            >>> table.insert([{"id": 4, "city": "sf", "fare": 8.4, "ts": 2}]).stats.inserted
            1
        """
        return self._write(OperationType.INSERT, rows, progress, notes)

    def bulk_insert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[Notes]
    ) -> CommitResult:
        """Add rows as new files, leaving existing ones alone. Arguments as of `insert`.

        >>> table.bulk_insert(pa.Table.from_pylist(rows)).stats.files
        2
        """
        return self._write(OperationType.BULK_INSERT, rows, progress, notes)

    def upsert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[Notes]
    ) -> CommitResult:
        """Update the rows whose keys are there, add the others. Arguments as of `insert`.

        >>> day = pd.DataFrame({"id": [1, 5], "city": "sf", "fare": [25.0, 9.5], "ts": 2})
        >>> stats = table.upsert(day, progress=print).stats  # doctest: +ELLIPSIS
        Progress(phase='prepare', done=0, total=None)
        ...
        Progress(phase='commit', done=1, total=1)
        >>> stats.updated, stats.inserted
        (1, 1)
        """
        return self._write(OperationType.UPSERT, rows, progress, notes)

    def insert_overwrite(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[Notes]
    ) -> CommitResult:
        """Replace the rows of every partition that occurs in `rows`. Arguments as of `insert`.

        >>> done = table.insert_overwrite([{"id": 9, "city": "sf", "fare": 1.0, "ts": 3}])
        >>> sorted(table.to_arrow(columns=["id"])["id"].to_pylist())
        [3, 9]
        """
        return self._write(OperationType.INSERT_OVERWRITE, rows, progress, notes)

    def insert_overwrite_table(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[Notes]
    ) -> CommitResult:
        """Replace all rows of the table. Arguments as of `insert`.

        >>> done = table.insert_overwrite_table(rows[:1])
        >>> table.count()
        1
        """
        return self._write(OperationType.INSERT_OVERWRITE_TABLE, rows, progress, notes)

    def delete_partitions(
        self,
        partitions: Sequence[str],
        *,
        progress: OnProgress | None = None,
        **notes: Unpack[Notes],
    ) -> CommitResult:
        """Take all rows of these partitions (paths such as `city=sf`) out.

        >>> done = table.delete_partitions(["city=sf"])
        >>> table.count()
        1
        """
        return self._write(OperationType.DELETE_PARTITION, partitions, progress, notes)
