"""Record keys and partition paths: the text rules, one value at a time.

Vectorised versions over Arrow columns are in `hoodoo.rows.keys`; they call these functions on
distinct values only.

With the bucket index a record key's hash says which file group of its partition it belongs to.
The number of the bucket stands in front of the file id, in eight digits, as Apache Hudi has it:

    00000003-27dc-463c-8ed4-2402a7adeb87-0

`hoodoo.write.index.bucket_hash` gives the numbers of whole columns of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum

from hoodoo.errors import InputError
from hoodoo.model.dates import TimestampRule
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

# -- record keys and partition paths ---------------------------------------------------------------


NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_UNSAFE_CHARACTERS = frozenset(chr(code) for code in (*range(0x20), 0x7F)) | set("\"#%'*/:=?\\{[]^")


class KeyGenerator(Enum):
    """How keys and partition paths are made of columns; values are Apache Hudi's words."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    NON_PARTITION = "NON_PARTITION"
    CUSTOM = "CUSTOM"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How this table makes record keys and partition paths."""

    generator: KeyGenerator
    record_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    hive_style: bool = False
    url_encode: bool = False
    timestamp: TimestampRule | None = None

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_fields) and self.generator is not KeyGenerator.NON_PARTITION

    @property
    def has_composite_keys(self) -> bool:
        """Whether keys are written `field:value,...`: several fields, or COMPLEX with one."""
        return len(self.record_fields) > 1 or self.generator is KeyGenerator.COMPLEX

    def partition_path(self, values: Sequence[object]) -> PartitionPath:
        """The partition path of one row, from the values of the partition fields."""
        if not self.is_partitioned:
            return PartitionPath("")
        segments = map(self.segment, self.partition_fields, values)
        return PartitionPath("/".join(segments))

    def segment(self, field: str, value: object) -> str:
        """One level of a partition path (several, for a date format with slashes)."""
        text = self.timestamp.path_of(value) if self.timestamp is not None else text_of(value)
        if not text:
            text = NULL_PARTITION
        elif self.url_encode:
            text = escape(text)
        if text.startswith("/") or text.endswith("/") or "//" in text:
            raise InputError(
                f"partition value {text!r} of {field} cannot be a directory name; "
                "set hoodie.datasource.write.partitionpath.urlencode=true"
            )
        if any(part in (".", "..") for part in text.split("/")):
            raise InputError(f"partition value {text!r} of {field} cannot be a directory name")
        return f"{field}={text}" if self.hive_style else text

    def values_in(self, path: PartitionPath) -> dict[str, str | None]:
        """Texts of the partition fields that a path or its leading part tells; {} if unclear."""
        if not self.is_partitioned or self.timestamp is not None:
            return {}
        segments = path.split("/") if path else []
        if len(segments) > len(self.partition_fields):
            return {}  # a value with a slash in it: levels do not match fields
        values: dict[str, str | None] = {}
        for field, segment in zip(self.partition_fields, segments, strict=False):
            text = segment.removeprefix(f"{field}=") if self.hive_style else segment
            text = unescape(text) if self.url_encode else text
            values[field] = None if text == NULL_PARTITION else text
        return values


def text_of(value: object) -> str:
    """A value as it stands in keys and partition paths; null is the empty text."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case float():
            return java_double(value)
        case datetime():
            raise InputError("a point in time is not a key: use its number, or a date format")
        case date():
            return value.isoformat()
        case _:
            raise InputError(f"a value of type {type(value).__name__} cannot be a key")


def java_double(value: float) -> str:
    """The text of a double as Java prints it, which is what Apache Hudi puts into paths."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0") or "0"
    point = len(text) + exponent  # position of the decimal point in `text`
    text = text.rstrip("0") or "0"
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole, fraction = text[:point].ljust(point, "0"), text[point:]
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def escape(text: str) -> str:
    """Percent-escape the characters that Apache Hudi escapes in partition values, only those."""
    return "".join(f"%{ord(char):02X}" if char in _UNSAFE_CHARACTERS else char for char in text)


def unescape(text: str) -> str:
    """Undo `escape`; a percent sign that starts no escape stays."""
    head, *parts = text.split("%")
    out = [head]
    for part in parts:
        code = part[:2]
        if len(code) == 2 and all(char in "0123456789abcdefABCDEF" for char in code):
            out.append(chr(int(code, 16)) + part[2:])
        else:
            out.append("%" + part)
    return "".join(out)


# -- the bucket index ------------------------------------------------------------------------------


DIGITS = 8
MOST_BUCKETS = 10**DIGITS - 1


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How many buckets a partition has, and the parts of the record key that are hashed."""

    count: int
    fields: tuple[str, ...]


def bucket_file_id(number: int, uuid: str) -> FileId:
    """The id of a new file group for a bucket."""
    return FileId(f"{number:0{DIGITS}d}{uuid[DIGITS:]}-0")


def bucket_of(file_id: FileId) -> int | None:
    """The bucket that a file group belongs to, or None if its id begins with no number."""
    digits = file_id[:DIGITS]
    is_number = len(digits) == DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None


def looks_like_bucket(file_id: FileId) -> bool:
    """Whether a file id is very likely a bucket's: few others begin with so many zeros.

    Of random ids, one in 400,000 has eight digits of which the first four are zeros.
    """
    return file_id.startswith("0000") and bucket_of(file_id) is not None
