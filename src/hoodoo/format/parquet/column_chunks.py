"""Parquet files put together out of column chunks of others, which are copied as bytes.

The pages of a chunk do not know where in a file they are: only the footer has offsets. So a chunk
that is to stay as it is need not be decoded and encoded again, which takes most of the time of
rewriting a file. Page checksums are copied with the pages.

    FileMetaData    1 version   2 schema   3 rows   4 row groups   5 key-values   6 made by
                    7 column orders, one per column: {1} is by type
    RowGroup        1 column chunks   2 bytes   3 rows   5 offset   6 compressed bytes   7 number
    ColumnChunk     1 other file   2 offset   3 metadata   8, 9 encryption
    ColumnMetaData  1 physical type   2 encodings   3 path   4 codec   5 values   6 bytes
                    7 compressed bytes   9 offset of data   11 offset of the dictionary
                    12 statistics   13 pages by encoding   16 statistics of sizes

Sorting columns, page indexes and Parquet's own bloom filters are left out: readers can do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from hoodoo.errors import FormatError
from hoodoo.format.parquet.thrift import (
    BINARY,
    BOOLEAN,
    I16,
    I32,
    I64,
    LIST_SPAN,
    Struct,
    field_spans,
    list_of,
    read_struct,
    struct_of,
    write_struct,
)

_MAGIC = b"PAR1"
_COPIED_AT_ONCE = 8 << 20
_MOST_NUMBERED = 1 << 15
_DATA_PAGES = (0, 3)
_DICTIONARY_ENCODINGS = (2, 8)

_STATISTICS = struct_of(
    {1: BINARY, 2: BINARY, 3: I64, 4: I64, 5: BINARY, 6: BINARY, 7: BOOLEAN, 8: BOOLEAN}
)
_CHUNK_METADATA = struct_of(
    {1: I32, 2: list_of(I32), 3: list_of(BINARY), 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64}
    | {12: _STATISTICS, 13: list_of(struct_of({1: I32, 2: I32, 3: I32}))}
    | {16: struct_of({1: I64, 2: list_of(I64), 3: list_of(I64)})}
)
_CHUNK = struct_of({2: I64, 3: _CHUNK_METADATA})
_ROW_GROUP = struct_of({1: list_of(_CHUNK), 2: I64, 3: I64, 5: I64, 6: I64, 7: I16})
_KEY_VALUE = struct_of({1: BINARY, 2: BINARY})
_FILE = struct_of(
    {1: I32, 2: LIST_SPAN, 3: I64, 4: list_of(_ROW_GROUP), 5: list_of(_KEY_VALUE), 6: BINARY}
    | {7: LIST_SPAN}
)


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """The pages of one leaf column in one row group of a file, and what the footer says of them."""

    source: pa.NativeFile
    metadata: Struct

    @property
    def name(self) -> str:
        """The top-level column that it belongs to."""
        return str(self.metadata[3][0].decode())

    @property
    def is_dictionary(self) -> bool:
        """Whether all of its values are in a dictionary."""
        pages = [page for page in self.metadata.get(13, ()) if page.get(1) in _DATA_PAGES]
        return bool(pages) and all(page.get(2) in _DICTIONARY_ENCODINGS for page in pages)

    @property
    def begin(self) -> int:
        """Where its first page is: a dictionary comes before the data."""
        dictionary, data = self.metadata.get(11), int(self.metadata[9])
        return min(int(dictionary), data) if dictionary else data

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return int(self.metadata[7])

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of its pages, not compressed."""
        return int(self.metadata[6])

    def read(self) -> Iterator[bytes]:
        """The bytes of all pages, some at a time."""
        at, end = self.begin, self.begin + self.size_bytes
        while at < end:
            data = self.source.read_at(min(_COPIED_AT_ONCE, end - at), at)
            if not data:
                raise FormatError("Parquet file ends within a column chunk")
            yield data
            at += len(data)

    def metadata_at(self, to: int) -> Struct:
        """What a footer says of it when its pages begin at another place."""
        by, metadata = to - self.begin, dict(self.metadata)
        metadata[9] += by
        if metadata.get(11):
            metadata[11] += by
        return metadata


class ChunkSource:
    """A Parquet file to copy column chunks from."""

    def __init__(self, source: pa.NativeFile, footer: bytes) -> None:
        self._source = source
        self._metadata = read_struct(footer)

    @property
    def columns(self) -> list[Struct]:
        """The schema's elements, without what differs between writers: the name of the whole."""
        root, *elements = self._metadata[2]
        return [{5: root.get(5)}, *elements]

    @cached_property
    def row_groups(self) -> list[tuple[int, list[ColumnChunk]]]:
        """For each row group its number of rows and its chunks.

        `FormatError` if there are chunks that cannot be copied: encrypted, or in other files.
        """
        try:
            orders = [1 in order for order in self._metadata.get(7, ())]
            return [
                (int(group[3]), [self._chunk(n, c, orders) for n, c in enumerate(group[1])])
                for group in self._metadata.get(4, ())
            ]
        except (AttributeError, KeyError, TypeError, IndexError):
            raise FormatError("Parquet footer lacks a field, or has it with another type") from None

    def _chunk(self, number: int, chunk: Struct, orders: list[bool]) -> ColumnChunk:
        if chunk.keys() & {1, 8, 9}:
            raise FormatError("Parquet column chunk is encrypted, or in another file")
        metadata = {key: value for key, value in chunk[3].items() if key not in (8, 10, 14, 15)}
        if not (number < len(orders) and orders[number]):
            metadata.pop(12, None)  # of no stated order, and the new footer would state one
        return ColumnChunk(self._source, metadata)


class ParquetAssembler:
    """Writes a Parquet file out of column chunks; the footer comes with `close`.

    Schema, version and writer are those of `like`, the footer of a file that may be empty.
    """

    def __init__(self, stream: Any, like: bytes) -> None:
        self._stream = stream
        self._like = like
        self._groups: list[Struct] = []
        self._rows = 0
        self._at = 0

    def add_row_group(self, rows: int, chunks: Iterable[ColumnChunk]) -> None:
        """Add a row group: the chunks of all leaf columns, in the order of the schema."""
        if not self._at:
            self._write(_MAGIC)
        begin, new_chunks = self._at, []
        for chunk in chunks:
            metadata = chunk.metadata_at(to=self._at)
            for data in chunk.read():
                self._write(data)
            new_chunks.append({2: metadata[9], 3: metadata})
        sizes = {key: sum(chunk[3][of] for chunk in new_chunks) for key, of in ((2, 6), (6, 7))}
        number = len(self._groups)
        group = {1: new_chunks, **sizes, 3: rows, 5: begin}
        self._groups.append({**group, 7: number} if number < _MOST_NUMBERED else group)
        self._rows += rows

    def close(self, key_values: Mapping[str, str]) -> None:
        """Write the footer; the stream is left to its owner."""
        if not self._at:
            self._write(_MAGIC)
        spans, like = field_spans(self._like), read_struct(self._like)
        key_value_metadata = [
            {1: key.encode(), 2: text.encode()} for key, text in key_values.items()
        ]
        footer = write_struct(
            _FILE,
            {1: like[1], 2: spans[2], 3: self._rows, 4: self._groups, 5: key_value_metadata}
            | {6: like.get(6), 7: spans.get(7)},
        )
        self._write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._at += len(data)
