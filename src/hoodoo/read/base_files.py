"""What reading needs to know of a table, and reading one base file by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, ObjectNotFound, SchemaMismatch, add_error_source
from hoodoo.format.parquet.base_file import (
    OpenParquet,
    open_parquet,
    read_rows,
    row_groups_that_may_match,
)
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.files import BaseFile, FileSlice, Visibility
from hoodoo.model.keys import KeyRule
from hoodoo.model.merge import MergeRule
from hoodoo.model.predicate import Predicate
from hoodoo.model.table import TableProperties
from hoodoo.rows import merge
from hoodoo.rows.conform import conform
from hoodoo.rows.filter import expression_columns
from hoodoo.rows.keys import record_keys
from hoodoo.runtime.env import Env

_PIECE_ROWS = 32_768
_PIECE_BYTES = 32 * 1024 * 1024
_UNPACKED_RATIO = 4  # bytes in memory for each byte in a base file, roughly


@dataclass(frozen=True, slots=True)
class ReadRule:
    """How rows of a table are read: what identifies and orders them, and what is wanted."""

    keys: KeyRule
    merge: MergeRule
    has_meta_fields: bool
    tolerates_cut_logs: bool
    schema: pa.Schema
    columns: tuple[str, ...]
    filter: Predicate | pc.Expression | None = None

    def columns_to_read(self, *, merging: bool) -> pa.Schema:
        """The columns to read: those wanted, and those that filtering and merging look at."""
        names = set(self.columns)
        if self.filter is not None:
            names.update(expression_columns(self.filter, self.schema))
        if merging:
            names.update(merge.flag_columns(self.merge))
            names.update(self.deciding_columns().names)
        return pa.schema([field for field in self.schema if field.name in names])

    def deciding_columns(self) -> pa.Schema:
        """The columns that merging looks at: record keys and what orders versions of a row."""
        names = set(self.key_columns())
        if self.merge.by_event_time:
            names.update(field.split(".")[0] for field in self.merge.ordering_fields)
            names.update(self.merge.ordering_fields)
        return pa.schema([field for field in self.schema if field.name in names])

    def key_columns(self) -> tuple[str, ...]:
        """The columns that record keys are read from or made of."""
        if self.has_meta_fields:
            return (RECORD_KEY,)
        return tuple(name for f in self.keys.record_fields for name in (f, f.split(".")[0]))

    def keys_of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Record keys: stored ones, or made of the key columns where meta fields are off."""
        return rows.column(RECORD_KEY) if self.has_meta_fields else record_keys(rows, self.keys)


def build_read_rule(
    properties: TableProperties,
    schema: pa.Schema,
    columns: tuple[str, ...],
    filter: Predicate | pc.Expression | None = None,
) -> ReadRule:
    """How to read these columns of a table whose rows have this schema."""
    return ReadRule(
        keys=properties.keys,
        merge=properties.merge,
        has_meta_fields=properties.populates_meta_fields,
        tolerates_cut_logs=properties.has_appended_logs,
        schema=schema,
        columns=columns,
        filter=filter,
    )


@dataclass(frozen=True, slots=True)
class SliceReadTask:
    """One slice to read."""

    env: Env
    slice: FileSlice
    rule: ReadRule
    visibility: Visibility

    @property
    def size_bytes(self) -> int:
        """The bytes of its files; fewer are read if not all columns are wanted."""
        return self.slice.size_bytes


def read_base(env: Env, base: BaseFile, columns: pa.Schema) -> pa.Table:
    """All rows of a base file in these `columns`."""
    with open_base(env, base) as file:
        return fit_to_schema(read_rows(file, columns.names), columns)


@contextmanager
def open_base(env: Env, base: BaseFile) -> Iterator[OpenParquet]:
    """A base file to read from; errors name it."""
    with add_error_source(base.path), _open(env, base.path) as source:
        yield open_parquet(source)


def matching_groups(
    file: OpenParquet, rule: ReadRule, schema: pa.Schema | None = None
) -> list[int] | None:
    """The row groups that may hold rows for the rule's filter; None stands for all."""
    if rule.filter is None or isinstance(rule.filter, pc.Expression):
        return None
    return row_groups_that_may_match(file, rule.filter, schema)


def read_base_pieces(
    file: OpenParquet,
    base: BaseFile,
    columns: pa.Schema,
    *,
    groups: Sequence[int] | None,
    whole: bool,
) -> Iterator[tuple[int, pa.Table]]:
    """Rows of an opened base file, each piece with the number of its first row.

    Pieces are small, so that memory is bounded, or as large as they come.
    """
    if whole and groups is None:
        yield 0, fit_to_schema(read_rows(file, columns.names), columns)
        return
    at_once = _rows_at_once(base, file.metadata.num_rows)
    position = 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if groups is None or group in groups:
            first = position
            if whole:
                yield first, fit_to_schema(read_rows(file, columns.names, [group]), columns)
            else:
                for rows in _iterate(file, columns.names, group, at_once):
                    yield first, fit_to_schema(rows, columns)
                    first += rows.num_rows
        position += count


def _iterate(
    file: OpenParquet, columns: Sequence[str], group: int, rows_at_once: int
) -> Iterator[pa.Table]:
    """As `read_rows`, of one row group, in pieces."""
    present = file.schema_arrow.names
    names = [name for name in columns if name in present] or present[:1]
    try:
        for batch in file.iter_batches(max(rows_at_once, 1), [group], names):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise FormatError(f"damaged Parquet file: {error}") from None


def _rows_at_once(base: BaseFile, rows: int) -> int:
    row_bytes = max(1, _UNPACKED_RATIO * base.size_bytes // max(rows, 1))
    return max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes))


def fit_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a file in the schema to read with; `FormatError` if the file cannot have it."""
    try:
        return conform(rows, schema)
    except SchemaMismatch as error:
        raise FormatError(f"not of the table's schema: {error}") from None


def _open(env: Env, path: str) -> pa.NativeFile:
    try:
        return env.storage.open_read(path)
    except ObjectNotFound:
        raise ObjectNotFound(
            path, "not found: it was cleaned while being read, or the table lost it"
        ) from None
