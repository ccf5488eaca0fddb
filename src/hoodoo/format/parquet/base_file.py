"""Base files: Parquet with meta columns first, and Apache Hudi's key-values in the footer.

    parquet.avro.schema             Avro schema of the rows, meta fields included
    hoodie_min_record_key, ...      what is told of the record keys, see `key_summary`

Pages carry checksums, and are verified when they are read: a flipped bit is an error, not a value.

Only columns with few distinct values get a dictionary. Arrow gives a dictionary up when it outgrows
its page, and has then looked every value up for nothing; a sample tells beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from hoodoo.errors import FormatError
from hoodoo.format.parquet.bloom_filter import BloomFilter
from hoodoo.format.parquet.column_chunks import ChunkSource, ColumnChunk, ParquetAssembler
from hoodoo.format.parquet.key_summary import (
    BLOOM,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    BloomOptions,
    CopiedKeySummary,
    KeySummary,
)
from hoodoo.format.parquet.statistics import value_ranges
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.predicate import Predicate, may_match

# -- which columns get a dictionary ----------------------------------------------------------------


_SAMPLE = 16_384
_MOST_BYTES = 1 << 20  # of a dictionary, by default in Arrow and in parquet-java


def columns_worth_a_dictionary(rows: pa.Table) -> list[str]:
    """Paths of the leaf columns of rows like these, but for those with too many values."""
    columns_without = {name for name in rows.column_names if _is_crowded(rows.column(name))}
    return [path for path in _leaf_paths(rows.schema) if path not in columns_without]


def _is_crowded(column: pa.ChunkedArray) -> bool:
    """Whether the distinct values of a column are surely more than a dictionary holds."""
    type_ = column.type
    if pt.is_nested(type_) or pt.is_dictionary(type_) or column.nbytes <= _MOST_BYTES:
        return False
    step = max(1, len(column) // _SAMPLE)
    # Chunk by chunk: of several at once, Arrow would copy all values first.
    sample = pa.chunked_array(
        [chunk.take(pa.array(np.arange(0, len(chunk), step))) for chunk in column.chunks]
    )
    width = sample.nbytes / len(sample)
    distinct = _likely_distinct(pc.count_distinct(sample).as_py(), len(sample), len(column))
    return bool(distinct * width > _MOST_BYTES)


def _likely_distinct(distinct: int, sample_size: int, total: int) -> float:
    """How many distinct values there are, if each is as frequent as the others.

    Of `d` values, a sample of `n` shows d * (1 - exp(-n / d)): by its first terms, n / d is twice
    the share of repetitions.
    """
    repeats = sample_size - distinct
    if repeats == 0:
        return total
    return min(total, max(distinct, sample_size * sample_size / (2 * repeats)))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """The columns as Parquet sees them: the leaves of nested ones, with a path each."""
    if not any(pt.is_nested(field.type) for field in schema):
        return list(schema.names)
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False).close()
    parquet_schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [parquet_schema.column(n).path for n in range(len(parquet_schema))]


# -- writing and reading base files ----------------------------------------------------------------


AVRO_SCHEMA = "parquet.avro.schema"

# What Arrow throws at bytes that are not Parquet, or not the Parquet that they claim to be.
_BROKEN = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError)

_MAGIC = b"PAR1"
_TAIL_BYTES = 64 * 1024  # read at once; most footers are shorter
_FIRST_GUESS = 0.5  # bytes in a file for each byte in memory, until the first row group tells


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How base files are encoded."""

    codec: str = "zstd"
    row_group_bytes: int = 120 * 1024 * 1024
    page_bytes: int = 1024 * 1024
    dictionary: bool = True
    bloom: BloomOptions | None = None


@dataclass(frozen=True, slots=True)
class Footer:
    """What Apache Hudi's key-values in a footer say; None where they are absent."""

    avro_schema: str | None
    min_key: str | None
    max_key: str | None
    bloom: BloomFilter | None


class BaseFileWriter:
    """Writes rows to a stream as one base file; the footer comes with `close`.

    Rows may have text columns as dictionaries, which are written as they are. `keys` are those
    that the file will have, if somebody knows. Only one that `copies` takes row groups of others.
    """

    def __init__(
        self,
        stream: Any,
        schema: pa.Schema,
        *,
        avro_schema: str,
        options: ParquetOptions,
        keys: CopiedKeySummary | None = None,
        copies: bool = False,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._options = options
        self._avro_schema = avro_schema
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._written_bytes = 0  # of rows in memory, to learn how well they compress
        self._keys = keys or KeySummary(options.bloom)
        self._writer: pq.ParquetWriter | None = None
        self._assembler = ParquetAssembler(stream, _empty_footer(schema)) if copies else None

    @property
    def size_bytes(self) -> int:
        """About how large the file would be if it were closed now."""
        bytes_on_disk = int(self._stream.tell())
        ratio = bytes_on_disk / self._written_bytes if self._written_bytes else _FIRST_GUESS
        return bytes_on_disk + int(self._pending_bytes * ratio) + self._keys.size_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes in memory of rows that are held back until their row group is full."""
        return self._pending_bytes

    def write(self, rows: pa.Table) -> None:
        """Add rows; a row group is written when enough have come together."""
        self._keys.add(rows.column(RECORD_KEY))
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= self._options.row_group_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are held back as a row group."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending).unify_dictionaries()
        groups = max(1, round(self._pending_bytes / self._options.row_group_bytes))
        size = max(1, -(-rows.num_rows // groups))
        if self._assembler is not None:
            for count, chunks in self._encode(rows, size).row_groups:
                self._assembler.add_row_group(count, chunks)
        else:
            self._open(rows).write_table(rows, row_group_size=size)
        self._written_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0

    def copy_group(
        self,
        file: OpenParquet,
        group: int,
        change: Callable[[str], pa.ChunkedArray | pa.Array | None],
    ) -> None:
        """Add a row group of another file; columns that `change` has nothing for are copied.

        The other file must have the same columns, see `can_copy_to`.
        """
        assert self._assembler is not None
        rows, chunks = file.chunks.row_groups[group]
        if not isinstance(self._keys, CopiedKeySummary):
            self._keys.add(read_rows(file, [RECORD_KEY], [group]).column(RECORD_KEY))
        self._assembler.add_row_group(rows, self._changed_chunks(chunks, change))

    def _changed_chunks(
        self,
        chunks: Sequence[ColumnChunk],
        change: Callable[[str], pa.ChunkedArray | pa.Array | None],
    ) -> Iterator[ColumnChunk]:
        for field in self._schema:
            column = change(field.name)
            if column is None:
                yield from (chunk for chunk in chunks if chunk.name == field.name)
            else:
                rows = pa.table([column], schema=pa.schema([field.with_type(column.type)]))
                for _, new_chunks in self._encode(rows, max(1, rows.num_rows)).row_groups:
                    yield from new_chunks

    def _encode(self, rows: pa.Table, row_group_size: int) -> ChunkSource:
        """Rows as a file in memory, to be copied into the one that is written."""
        sink = pa.BufferOutputStream()
        with self._new_writer(sink, rows.schema, rows) as writer:
            writer.write_table(rows, row_group_size=row_group_size)
        source = pa.BufferReader(sink.getvalue())
        return ChunkSource(source, footer_bytes(source))

    def close(self) -> None:
        """Write what is left, and the footer."""
        self.flush()
        key_values = {AVRO_SCHEMA: self._avro_schema} | self._keys.key_values()
        if self._assembler is not None:
            self._assembler.close(key_values)
        else:
            writer = self._open(self._schema.empty_table())
            writer.add_key_value_metadata(key_values)
            writer.close()

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        """The writer; the first rows say which columns are worth a dictionary."""
        if self._writer is None:
            self._writer = self._new_writer(self._stream, self._schema, rows)
        return self._writer

    def _new_writer(self, sink: Any, schema: pa.Schema, rows: pa.Table) -> pq.ParquetWriter:
        options = self._options
        return pq.ParquetWriter(
            sink,
            schema,
            compression="none" if options.codec == "uncompressed" else options.codec,
            use_dictionary=columns_worth_a_dictionary(rows) if options.dictionary else False,
            data_page_size=options.page_bytes,
            write_page_checksum=True,
            store_schema=False,  # the types are Parquet's own, the same for every reader
        )


def _empty_footer(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False).close()
    return footer_bytes(pa.BufferReader(sink.getvalue()))


def can_copy_to(file: OpenParquet, schema: pa.Schema) -> bool:
    """Whether column chunks of a file are what a file with this schema would have."""
    source = pa.BufferReader(b"")
    if file.chunks.columns != ChunkSource(source, _empty_footer(schema)).columns:
        return False
    try:
        groups = file.chunks.row_groups
    except FormatError:
        return False
    leaves = len(file.schema)
    return all(len(chunks) == leaves for _, chunks in groups)


class OpenParquet(pq.ParquetFile):  # type: ignore[misc]  # pyarrow has no types
    """A Parquet file, and the bytes of its footer: pyarrow cannot be asked safely for all of it."""

    def __init__(self, source: pa.NativeFile, *, read_dictionary: Sequence[str] = ()) -> None:
        self.footer = footer_bytes(source)
        self.source = source
        super().__init__(
            source,
            metadata=pq.read_metadata(pa.BufferReader(_as_file(self.footer))),
            read_dictionary=list(read_dictionary),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
            pre_buffer=True,
        )

    @cached_property
    def chunks(self) -> ChunkSource:
        """Its column chunks, to be copied."""
        return ChunkSource(self.source, self.footer)

    @cached_property
    def compact(self) -> OpenParquet:
        """The same file, whose texts are dictionaries where they are so in all row groups."""
        texts = {field.name for field in self.schema_arrow if pa.types.is_string(field.type)}
        for _, chunks in self.chunks.row_groups:
            texts &= {chunk.name for chunk in chunks if chunk.is_dictionary}
        return OpenParquet(self.source, read_dictionary=sorted(texts))


def open_parquet(source: pa.NativeFile) -> OpenParquet:
    """A Parquet file; `FormatError` if it is none."""
    try:
        return OpenParquet(source)
    except _BROKEN as error:
        raise FormatError(f"not a Parquet file: {error}") from None


def footer_bytes(source: pa.NativeFile) -> bytes:
    """The encoded metadata at a file's end: it is followed by its length and a magic."""
    size = source.size()
    tail = _read_last(source, min(size, _TAIL_BYTES))
    if size < 12 or tail[-4:] != _MAGIC:
        raise FormatError(f"not a Parquet file: {size} bytes that do not end with a magic")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > size - 4:
        raise FormatError(f"not a Parquet file: {size} bytes with a footer of {length}")
    if length > len(tail):
        tail = _read_last(source, length)
    return tail[-length:-8]


def _read_last(source: pa.NativeFile, count: int) -> bytes:
    source.seek(source.size() - count)
    return bytes(source.read(count))


def _as_file(footer: bytes) -> bytes:
    return _MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC


def read_rows(
    file: pq.ParquetFile, columns: Sequence[str], row_groups: Sequence[int] | None = None
) -> pa.Table:
    """Those of `columns` that the file has, of all row groups or some.

    A file that has none of them still has rows: then one of its own columns tells how many.
    """
    try:
        present = file.schema_arrow.names
        names = [name for name in columns if name in present] or present[:1]
        if row_groups is None:
            rows = file.read(names)
        else:
            rows = file.read_row_groups(list(row_groups), names)
    except _BROKEN as error:
        raise FormatError(f"damaged Parquet file: {error}") from None
    return rows.replace_schema_metadata(None)


def read_column(file: OpenParquet, name: str, group: int) -> pa.ChunkedArray:
    """A top-level column of a row group; texts that the file has as a dictionary stay one."""
    return read_rows(file.compact, [name], [group]).column(0)


def read_footer(metadata: pq.FileMetaData) -> Footer:
    """Apache Hudi's key-values of a footer."""
    key_values: Mapping[bytes, bytes] = metadata.metadata or {}

    def text(key: str) -> str | None:
        value = key_values.get(key.encode())
        try:
            return value.decode() if value is not None else None
        except UnicodeDecodeError:
            raise FormatError(f"{key} in the footer is not UTF-8") from None

    bloom, kind = text(BLOOM), text(BLOOM_TYPE)
    return Footer(
        text(AVRO_SCHEMA),
        text(MIN_KEY),
        text(MAX_KEY),
        BloomFilter.decode(bloom, kind or "SIMPLE") if bloom is not None else None,
    )


def read_known_keys(
    metadata: pq.FileMetaData, bloom: BloomOptions | None
) -> CopiedKeySummary | None:
    """The keys of a file, to be told of another one that has the same; None if not all is told."""
    try:
        footer = read_footer(metadata)
    except FormatError:
        return None
    if footer.min_key is None or footer.max_key is None or (bloom and footer.bloom is None):
        return None
    return CopiedKeySummary((footer.min_key, footer.max_key), footer.bloom if bloom else None)


def row_groups_that_may_match(
    file: OpenParquet, predicate: Predicate, schema: pa.Schema | None = None
) -> list[int]:
    """The row groups whose statistics do not rule the predicate out.

    Columns that the file has in another type than `schema` are left aside: a bound that is exact
    in the file may be rounded in the rows.
    """
    try:
        ranges_by_group = value_ranges(file.footer, file.schema_arrow)
    except _BROKEN as error:
        raise FormatError(f"damaged Parquet statistics: {error}") from None
    if schema is not None:
        same = {field.name for field in file.schema_arrow if field.type == _type(schema, field)}
        ranges_by_group = [
            {name: ranges[name] for name in ranges.keys() & same} for ranges in ranges_by_group
        ]
    return [number for number, ranges in enumerate(ranges_by_group) if may_match(predicate, ranges)]


def _type(schema: pa.Schema, field: pa.Field) -> pa.DataType | None:
    return schema.field(field.name).type if field.name in schema.names else None
