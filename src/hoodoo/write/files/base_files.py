"""`BaseFiles`: rows of one file group become a base file, or several of limited size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.write import MAX_FILE_SIZE
from hoodoo.format.parquet.base_file import BaseFileWriter, OpenParquet
from hoodoo.format.parquet.key_summary import CopiedKeySummary
from hoodoo.format.schema import FILE_NAME, with_meta_fields
from hoodoo.model.commit import WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import BaseFileName, FileId, MarkerKind
from hoodoo.model.paths import PartitionPath, join
from hoodoo.storage.storage import WriteStream
from hoodoo.write.files.meta_columns import repeat, set_file_name, stored_schema
from hoodoo.write.files.outputs import Outputs

_MOST_ROWS_AT_ONCE = 131_072
_FEWEST_ROWS_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A base file that is whole, and hidden until the handle publishes it."""

    name: BaseFileName
    path: str
    rows: int
    size_bytes: int

    def as_insert(self, partition: PartitionPath) -> WriteStat:
        """The stat of a file all of whose rows are new."""
        return WriteStat(
            file_id=self.name.file_id,
            path=self.path,
            num_writes=self.rows,
            num_inserts=self.rows,
            total_write_bytes=self.size_bytes,
            file_size_in_bytes=self.size_bytes,
            partition_path=partition,
        )


@dataclass(frozen=True, slots=True)
class CopiedGroup:
    """A row group of another base file, and what its columns become: None for those that stay."""

    file: OpenParquet
    group: int
    change: Callable[[str], pa.ChunkedArray | pa.Array | None]

    @property
    def num_rows(self) -> int:
        return int(self.file.metadata.row_group(self.group).num_rows)


class BaseFiles:
    """Base files in the making: a full one is followed by one with the next number in its id."""

    def __init__(
        self,
        outputs: Outputs,
        group: FileGroupId,
        kind: MarkerKind,
        *,
        rolls_over: bool,
        copies: bool = False,
    ) -> None:
        """`rolls_over`: no file grows beyond the setting; otherwise there is exactly one.

        `copies`: it takes row groups of the file before it.
        """
        self._outputs = outputs
        self._group = group
        self._kind = kind
        self._rolls_over = rolls_over
        self._copies = copies
        self._max_bytes = outputs.context.ref.config.get(MAX_FILE_SIZE)
        self._written: list[WrittenFile] = []
        self._file: _OpenFile | None = None

    @property
    def pending_bytes(self) -> int:
        """What is held in memory, waiting for its row group to be full."""
        return self._file.writer.pending_bytes if self._file else 0

    def flush(self) -> None:
        """Write what is held in memory as a row group."""
        if self._file:
            self._file.writer.flush()

    def write(self, rows: pa.Table, keys: CopiedKeySummary | None = None) -> None:
        """Add rows with meta columns; the file's name is put in here.

        `keys`, with the first rows, are all that will be in the one file, if somebody knows.
        """
        piece_rows = self._rows_at_once(rows) if self._rolls_over else max(rows.num_rows, 1)
        for start in range(0, rows.num_rows, piece_rows):
            file = self._file
            if file is None or (self._rolls_over and file.writer.size_bytes >= self._max_bytes):
                file = self._begin(keys)
            file.write(rows.slice(start, piece_rows))

    def copy(self, group: CopiedGroup, keys: CopiedKeySummary | None = None) -> None:
        """Add a row group of another file; `keys` as in `write`."""
        (self._file or self._begin(keys)).copy(group)

    def end(self) -> list[WrittenFile]:
        """Bring the last file to its end: without any rows, one that is empty."""
        if self._file is None and not self._written:
            self._begin()
        self._close()
        return self._written

    def _begin(self, keys: CopiedKeySummary | None = None) -> _OpenFile:
        self._close()
        name = self._name(len(self._written))
        stream = self._outputs.open(self._group.partition, name, self._kind)
        context = self._outputs.context
        writer = BaseFileWriter(
            stream,
            stored_schema(context.schema),
            avro_schema=with_meta_fields(context.schema_json),
            options=context.parquet_options(),
            keys=keys,
            copies=self._copies,
        )
        self._file = _OpenFile(name, stream, writer)
        return self._file

    def _close(self) -> None:
        if self._file is None:
            return
        name, size_bytes = self._file.name, self._file.close()
        path = join(self._group.partition, str(name))
        self._written.append(WrittenFile(name, path, self._file.rows, size_bytes))
        self._file = None

    def _name(self, part: int) -> BaseFileName:
        file_id = self._group.file_id
        if part:  # rolled over: the next number behind the same prefix
            prefix, _, number = file_id.rpartition("-")
            file_id = FileId(f"{prefix}-{int(number) + part}")
        return BaseFileName(file_id, self._outputs.token, self._outputs.context.requested_time)

    def _rows_at_once(self, rows: pa.Table) -> int:
        """A small part of what fits into a file, so that its size can be watched as it grows."""
        row_bytes = rows.nbytes / rows.num_rows if rows.num_rows else 1
        fits = int(self._max_bytes / 8 / row_bytes)
        return min(max(fits, _FEWEST_ROWS_AT_ONCE), _MOST_ROWS_AT_ONCE)


@dataclass
class _OpenFile:
    name: BaseFileName
    stream: WriteStream
    writer: BaseFileWriter
    rows: int = 0

    def write(self, rows: pa.Table) -> None:
        self.writer.write(set_file_name(rows, str(self.name)))
        self.rows += rows.num_rows

    def copy(self, group: CopiedGroup) -> None:
        def change(name: str) -> pa.ChunkedArray | pa.Array | None:
            if name == FILE_NAME:
                return repeat(str(self.name), group.num_rows)
            return group.change(name)

        self.writer.copy_group(group.file, group.group, change)
        self.rows += group.num_rows

    def close(self) -> int:
        self.writer.close()
        return self.stream.tell()
