"""Schemas as typed on a command line: a file, Avro JSON, or the short form.

    id:long!,name:string,fare:decimal(10,2),tags:list<string>,at:struct<lat:double,lon:double>

A `!` after a type means that values are never null. Types: boolean, int, long, float, double,
string, bytes, date, time, timestamp (UTC), timestamp_ntz (local), decimal(p,s), fixed(n), list<t>,
map<t> (keys are strings), struct<name:t,...>.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa

from hoodoo.errors import InputError

_PARQUET_MAGIC = b"PAR1"
_TOKEN = re.compile(r"\s*([A-Za-z_0-9]+|[:,<>()!])\s*")
_MAX_DEPTH = 50

_SIMPLE = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def read_schema(text: str) -> pa.Schema | str:
    """The schema that a `--schema` argument means: an Arrow schema, or Avro JSON."""
    if text.lstrip().startswith("{"):
        return text
    if os.path.isfile(text):
        return _schema_of_file(Path(text))
    if ":" not in text:
        raise InputError(f"schema {text!r}: no such file, and not of the form name:type,...")
    return parse_schema(text)


def parse_schema(text: str) -> pa.Schema:
    """Read the short form; `InputError` says where it fails."""
    return pa.schema(_Parser(text).parse())


def _schema_of_file(path: Path) -> pa.Schema | str:
    try:
        with path.open("rb") as file:
            if file.read(len(_PARQUET_MAGIC)) != _PARQUET_MAGIC:
                return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"schema {str(path)!r}: neither a Parquet file nor Avro JSON") from None
    except OSError as error:
        raise InputError(f"schema {str(path)!r}: {error.strerror}") from None
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"schema {str(path)!r}: not a Parquet file: {error}") from None


class _Parser:
    """Recursive descent over: fields > field > type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def parse(self) -> list[pa.Field]:
        fields = self._fields()
        if self._position < len(self._text):
            raise self._error("expected , or the end")
        return fields

    def _error(self, reason: str) -> InputError:
        near = self._text[self._position : self._position + 20]
        where = f"before {near!r}" if near else "at the end"
        return InputError(f"schema {self._text!r}: {reason} {where}")

    def _take(self, token: str) -> bool:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match[1] != token:
            return False
        self._position = match.end()
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._error(f"expected {token}")

    def _word(self, what: str) -> str:
        match = _TOKEN.match(self._text, self._position)
        if match is None or not re.match(r"\w", match[1]):
            raise self._error(f"expected {what}")
        self._position = match.end()
        return match[1]

    def _number(self) -> int:
        word = self._word("a number")
        if not word.isdecimal() or len(word) > 9:
            raise self._error(f"{word!r} is not a number")
        return int(word)

    def _fields(self) -> list[pa.Field]:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        return fields

    def _field(self) -> pa.Field:
        name = self._word("a column name")
        self._expect(":")
        return self._nullable(name, self._type())

    def _nullable(self, name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=not self._take("!"))

    def _type(self) -> pa.DataType:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error("nested too deeply")
        word = self._word("a type")
        kind = self._type_named(word.lower())
        if kind is None:
            raise self._error(f"unknown type {word!r}")
        self._depth -= 1
        return kind

    def _type_named(self, word: str) -> pa.DataType | None:
        if word in _SIMPLE:
            return _SIMPLE[word]
        match word:
            case "decimal":
                return self._decimal()
            case "fixed":
                self._expect("(")
                size = self._number()
                self._expect(")")
                return pa.binary(size)
            case "list" | "array":
                return pa.list_(self._inner("element"))
            case "map":
                return pa.map_(pa.string(), self._inner("value"))
            case "struct":
                self._expect("<")
                fields = self._fields()
                self._expect(">")
                return pa.struct(fields)
        return None

    def _inner(self, name: str) -> pa.Field:
        self._expect("<")
        field = self._nullable(name, self._type())
        self._expect(">")
        return field

    def _decimal(self) -> pa.DataType:
        self._expect("(")
        precision, scale = self._number(), 0
        if self._take(","):
            scale = self._number()
        self._expect(")")
        try:
            return pa.decimal128(precision, scale)
        except ValueError as error:
            raise self._error(str(error)) from None
