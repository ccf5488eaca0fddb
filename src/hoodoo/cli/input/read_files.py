"""Files to load, read in this process: Parquet as it is, CSV and JSON in the types of the table.

Spark reads the same files in `spark.read.input_files`, and rows come out alike.
"""

from __future__ import annotations

import csv
import io
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as pq
import pyarrow.types as pt

from hoodoo.cli.input.files import COMPRESSION_SUFFIXES, Format, Input
from hoodoo.errors import InputError
from hoodoo.format.arrow_types import normalise
from hoodoo.format.schema import META_FIELDS
from hoodoo.rows.incoming import schema_to_arrow
from hoodoo.table.ref import TableRef
from hoodoo.write.planning.prepare import evolve_schema, refuse_duplicate_names, schema_of_deletes

_EXPANSION = 5
"""Bytes of text in each byte of a packed file, roughly."""
_BAD_FILES = (pa.ArrowException, OSError, ValueError, OverflowError)
_ZONE = r"\d(Z|[+-]\d\d(:?\d\d)?)$"
_DAY = r"^\d{4}-\d\d-\d\d$"
_CSV_COLUMN = re.compile(r"In CSV column #(\d+): ")


def size_of(input_: Input) -> int:
    """The bytes of the rows, unpacked, roughly."""
    if input_.format is Format.PARQUET:
        return sum(map(_unpacked_bytes, input_.files))
    return sum(
        path.stat().st_size * (_EXPANSION if path.suffix in COMPRESSION_SUFFIXES else 1)
        for path in input_.files
    )


def check_columns(ref: TableRef, input_: Input, schema: pa.Schema, *, deletes: bool) -> None:
    """Fail if columns do not fit the table, or those of the key are missing.

    JSON tells its columns row by row, so that waits until the rows are read.
    """
    check = schema_of_deletes if deletes else evolve_schema
    for path in input_.files if input_.format is not Format.JSON else ():
        try:
            columns = _columns_of(path, input_.format, schema)
            check(ref, normalise(columns), schema)
        except InputError as error:
            raise type(error)(f"{path}: {error}") from None


def is_read_here(input_: Input, schema: pa.Schema) -> bool:
    """Whether this process can read the files: those of JSON depend on the table's types."""
    if not input_.files:
        return False
    return input_.format is not Format.JSON or all(_fits_json(field.type) for field in schema)


def read_rows(input_: Input, schema: pa.Schema) -> pa.Table:
    """All rows of the files."""
    readers = {Format.PARQUET: _read_parquet, Format.CSV: _read_csv, Format.JSON: _read_json}
    tables = []
    for path in input_.files:
        try:
            tables.append(readers[input_.format](path, schema))
        except InputError as error:
            raise type(error)(f"{path}: {error}") from None
        except _BAD_FILES as error:
            reason = _name_column(str(error).partition("\n")[0], path, input_, schema)
            raise InputError(f"{path} cannot be read as {input_.format.value}: {reason}") from None
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"{input_.place}: its files do not fit each other: {error}") from None


def _name_column(reason: str, path: Path, input_: Input, schema: pa.Schema) -> str:
    """The reason of Arrow, which counts columns of CSV files from 0, with the column's name."""
    match = _CSV_COLUMN.match(reason)
    if match is None or input_.format is not Format.CSV:
        return reason
    name = _read_header(path, schema)[int(match[1])]
    return f"column {name}: {reason[match.end() :]}"


def _columns_of(path: Path, format: Format, schema: pa.Schema) -> pa.Schema:
    """The columns of a file, without meta columns; those of CSV have the types of the table."""
    if format is Format.CSV:
        names = [name for name in _read_header(path, schema) if name not in META_FIELDS]
        return pa.schema([schema.field(name) for name in names])
    try:
        file_schema = pq.read_schema(path)
    except _BAD_FILES as error:
        raise InputError(f"it cannot be read as parquet: {error}") from None
    columns = pa.schema([field for field in file_schema if field.name not in META_FIELDS])
    refuse_duplicate_names(columns.names)
    plain = schema_to_arrow(columns)
    assert isinstance(plain, pa.Schema)
    return plain


def _unpacked_bytes(path: Path) -> int:
    try:
        metadata = pq.read_metadata(path)
    except _BAD_FILES:
        return 0  # reading it tells what is wrong
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(group).total_byte_size for group in groups)


def _read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    return pq.ParquetFile(path).read().replace_schema_metadata(None)


# -- CSV --------------------------------------------------------------------------------------


def _read_header(path: Path, schema: pa.Schema) -> list[str]:
    """The names in the first line of a CSV file."""
    try:
        with pa.input_stream(str(path)) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", newline="")
            names = next(csv.reader(text), [])
    except (*_BAD_FILES, csv.Error) as error:
        raise InputError(f"it cannot be read as csv: {error}") from None
    _refuse_new(names, schema.names)
    refuse_duplicate_names(names)
    return names


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    names = _read_header(path, schema)
    nested_columns = [name for name in names if pt.is_nested(_type_in(schema, name))]
    if nested_columns:
        raise InputError(f"CSV has no values for nested columns: {', '.join(nested_columns)}")
    types = {name: _csv_type(_type_in(schema, name)) for name in names}
    options = arrow_csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
    )
    with pa.input_stream(str(path)) as file:
        rows = arrow_csv.read_csv(
            file,
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=options,
        )
    return _parse_texts(rows, schema, _parse_plain_bytes)


def _csv_type(type_: pa.DataType) -> pa.DataType:
    return pa.string() if _is_told_by_text(type_) else type_


# -- JSON -------------------------------------------------------------------------------------


def _read_json(path: Path, schema: pa.Schema) -> pa.Table:
    fields = [pa.field(field.name, _json_type(field.type)) for field in schema]
    fields += [pa.field(name, pa.string()) for name in META_FIELDS if name not in schema.names]
    options = arrow_json.ParseOptions(explicit_schema=pa.schema(fields), newlines_in_values=True)
    with pa.input_stream(str(path)) as file:
        rows = arrow_json.read_json(file, parse_options=options)
    _refuse_new(_deep_names(pa.struct(list(rows.schema)), pa.struct(fields)), ())
    # All columns of the table are there by now; those that the file lacks say nothing.
    empty = [name for name in rows.column_names if rows.column(name).null_count == len(rows)]
    return _parse_texts(rows.drop_columns(empty), schema, _parse_base64)


def _json_type(type_: pa.DataType) -> pa.DataType:
    if pt.is_struct(type_):
        return pa.struct([field.with_type(_json_type(field.type)) for field in type_])
    if pt.is_list(type_):
        return pa.list_(_json_type(type_.value_type))
    return pa.string() if _is_told_by_text(type_) else type_


def _fits_json(type_: pa.DataType, *, inside: bool = False) -> bool:
    """Whether values of a type can be read here: maps cannot, nor deep texts of other types."""
    if pt.is_struct(type_):
        return all(_fits_json(field.type, inside=True) for field in type_)
    if pt.is_list(type_):
        return _fits_json(type_.value_type, inside=True)
    return not pt.is_map(type_) and not (inside and _is_told_by_text(type_))


def _deep_names(file_type: pa.DataType, table_type: pa.DataType, path: str = "") -> Iterator[str]:
    """Names in one type that the other does not have, however deep."""
    if pt.is_struct(file_type) and pt.is_struct(table_type):
        types = {field.name: field.type for field in table_type}
        for field in file_type:
            if field.name in types:
                yield from _deep_names(field.type, types[field.name], f"{path}{field.name}.")
            else:
                yield f"{path}{field.name}"
    elif pt.is_list(file_type) and pt.is_list(table_type):
        yield from _deep_names(file_type.value_type, table_type.value_type, path)


# -- values given as text --------------------------------------------------------------------------


def _refuse_new(names: Iterator[str] | Sequence[str], column_names: Sequence[str]) -> None:
    missing = [name for name in names if name not in column_names and name not in META_FIELDS]
    if missing:
        raise InputError(f"it has columns that the table lacks: {', '.join(missing)}")


def _type_in(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(name).type if name in schema.names else pa.string()


def _is_told_by_text(type_: pa.DataType) -> bool:
    is_binary = pt.is_binary(type_) or pt.is_fixed_size_binary(type_)
    return bool(pt.is_temporal(type_) or is_binary)


def _parse_texts(
    rows: pa.Table,
    schema: pa.Schema,
    parse_bytes: Callable[[pa.ChunkedArray, pa.DataType], pa.ChunkedArray],
) -> pa.Table:
    """Texts of times and bytes as what they stand for."""
    for at, name in enumerate(rows.column_names):
        type_, texts = _type_in(schema, name), rows.column(at)
        if not _is_told_by_text(type_):
            continue
        try:
            if pt.is_timestamp(type_):
                values = _parse_times(texts, type_)
            elif pt.is_time(type_):  # Arrow reads no times of day, so they get a day
                stamps = pc.binary_join_element_wise("1970-01-01T", texts, "")
                values = stamps.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(type_)
            elif pt.is_temporal(type_):
                values = texts.cast(type_)
            else:
                values = parse_bytes(texts, type_)
        except _BAD_FILES as error:
            raise InputError(f"column {name}: {error}") from None
        rows = rows.set_column(at, name, values)
    return rows


def _parse_times(texts: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """ISO times; where the table has a zone, those without one are in UTC."""
    if type_.tz is None:
        return texts.cast(type_)
    times = pc.if_else(
        pc.match_substring_regex(texts, _DAY),
        pc.binary_join_element_wise(texts, "T00:00", ""),
        texts,
    )
    has_zone = pc.match_substring_regex(times, "[T ].*" + _ZONE)
    return pc.if_else(has_zone, times, pc.binary_join_element_wise(times, "Z", "")).cast(type_)


def _parse_plain_bytes(texts: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    return texts.cast(pa.binary()).cast(type_)


def _parse_base64(texts: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    # Arrow has no function for it, and such columns are rare.
    values = [
        None if text is None else b64decode(text, validate=True) for text in texts.to_pylist()
    ]
    return pa.chunked_array([pa.array(values, type_)])
