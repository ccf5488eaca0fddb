r"""Java properties text: `hoodie.properties` and `.hoodie_partition_metadata`.

    #Updated at 2026-03-07T22:26:23.352Z        comments start with # or !
    #Sat Mar 07 22:26:23 UTC 2026
    hoodie.table.name=trips                     key, then = or : or blanks, then value
    hoodie.table.create.schema={"type"\:"..."}  \x stands for x; \t \n \r \f for controls;
    note=gr\u00fcn \                            \uXXXX for a UTF-16 unit; a backslash at the
         und blau                               end of a line continues it

Bytes are ISO-8859-1. Reading follows `java.util.Properties` to the letter. Writing escapes only
what must be: Java writes `\:` where `:` would do, and readers exist that never take it back.

`.hoodie_partition_metadata` is the file that makes a directory a partition:

#partition metadata
#Sat Mar 07 16:26:00 UTC 2026
commitTime=20260307162557587        the instant that made the partition
partitionDepth=1                    how many directories it lies below the table
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hoodoo.errors import FormatError
from hoodoo.model.instant import InstantTime, is_instant_time
from hoodoo.model.paths import PartitionPath

# -- properties text -------------------------------------------------------------------------------


NAME_KEY = "hoodie.table.name"
DATABASE_KEY = "hoodie.database.name"
CHECKSUM_KEY = "hoodie.table.checksum"

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_TRAILING_BACKSLASHES = re.compile(r"\\*\Z")
# A key runs to the first blank or separator that no backslash protects.
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_HEX = re.compile(r"[0-9A-Fa-f]{4}\Z")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE = re.compile("[\ud800-\udfff]")

_PLAIN = re.compile(r"[\x20-\x5b\x5d-\x7e]*\Z")
_CONTROL_NAMES = {control: name for name, control in _CONTROLS.items()}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(data: bytes) -> dict[str, str]:
    """The keys and values of a properties text; of a key given twice the last one counts."""
    properties: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key = _KEY.match(line)
        separator = _SEPARATOR.match(line, key.end() if key else 0)
        value_start = separator.end() if separator else 0
        properties[_unescape(key[0] if key else "")] = _unescape(line[value_start:])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with continuations joined; without blank lines, comments and indentation."""
    naturals = _LINE_END.split(text)
    if naturals[-1] == "":
        naturals.pop()
    logical, is_open = "", False
    for natural in naturals:
        line = natural.lstrip(_BLANKS)
        if not logical and line[:1] in ("", "#", "!"):
            is_open = False
            continue
        backslashes = _TRAILING_BACKSLASHES.search(line)
        is_open = backslashes is not None and len(backslashes[0]) % 2 == 1
        logical += line[:-1] if is_open else line
        if not is_open:
            yield logical
            logical = ""
    if is_open and (logical or not text.endswith("\r\n")):
        yield logical  # the text ends where a continuation was promised


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    if not _SURROGATE.search(plain):
        return plain
    try:
        # \uXXXX are UTF-16 units, so a character outside the BMP comes as two of them.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise FormatError(f"half a surrogate pair in {text[:80]!r}") from None


def _unescape_one(match: re.Match[str]) -> str:
    digits, other = match[1], match[2]
    if digits is None:
        return _CONTROLS.get(other, other)
    if not _HEX.match(digits):
        raise FormatError(f"bad escape {match[0]!r}: four hexadecimal digits must follow \\u")
    return chr(int(digits, 16))


def serialise(
    properties: Mapping[str, str], *, comment: str | None = None, at_ms: int | None = None
) -> bytes:
    """Properties text, keys sorted, under a comment line and a line with the date, if given."""
    lines = []
    if comment is not None:
        lines.append("#" + _escape(comment))
    if at_ms is not None:
        lines.append("#" + java_date(at_ms))
    for key in sorted(properties):
        lines.append(f"{_escape_key(key)}={_escape_value(properties[key])}")
    return "".join(line + "\n" for line in lines).encode("ascii")


def _escape_key(key: str) -> str:
    return re.sub(r"[ =:#!]", r"\\\g<0>", _escape(key))


def _escape_value(value: str) -> str:
    # Only a leading blank would be lost; the escapes of _escape take care of \t and \f.
    return ("\\" if value.startswith(" ") else "") + _escape(value)


def _escape(text: str) -> str:
    return text if _PLAIN.match(text) else "".join(map(_escape_one, text))


def _escape_one(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char in _CONTROL_NAMES:
        return "\\" + _CONTROL_NAMES[char]
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def java_date(at_ms: int) -> str:
    """A moment as `java.util.Date` prints it in UTC: `Sat Mar 07 22:26:23 UTC 2026`."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment.day:02d} {moment:%H:%M:%S} UTC {moment.year}"


def saved_at(at_ms: int) -> str:
    """The first comment of a newly made `hoodie.properties`."""
    return f"Properties saved on {_iso(at_ms)}"


def updated_at(at_ms: int) -> str:
    """The first comment of a changed `hoodie.properties`."""
    return f"Updated at {_iso(at_ms)}"


def _iso(at_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def checksum(properties: Mapping[str, str]) -> int:
    """The value for `hoodie.table.checksum`: CRC-32 of `<database>.<table>`."""
    name = properties.get(NAME_KEY)
    if name is None:
        raise FormatError(f"{NAME_KEY} is missing")
    return zlib.crc32(f"{properties.get(DATABASE_KEY, '')}.{name}".encode("utf-8", "replace"))


def verify(properties: Mapping[str, str]) -> None:
    """Refuse properties whose checksum is there and wrong: the file is damaged or half made."""
    text = properties.get(CHECKSUM_KEY)
    if text is None:
        return
    right_checksum = str(checksum(properties))
    if text.strip() != right_checksum:
        raise FormatError(
            f"{CHECKSUM_KEY} is {text!r}, but name and database give {right_checksum}"
        )


# -- partition metadata ----------------------------------------------------------------------------


_COMMIT_TIME = "commitTime"
_DEPTH = "partitionDepth"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Who made a partition, and how deep it lies."""

    commit_time: InstantTime
    depth: int

    @classmethod
    def of(cls, partition: PartitionPath, *, made_by: InstantTime) -> PartitionMetadata:
        """The metadata of a partition that `made_by` creates."""
        return cls(made_by, len(partition.split("/")) if partition else 0)


def encode(metadata: PartitionMetadata, *, at_ms: int | None = None) -> bytes:
    """The file's bytes; with a date line if a time is given."""
    values = {_COMMIT_TIME: metadata.commit_time, _DEPTH: str(metadata.depth)}
    return serialise(values, comment="partition metadata", at_ms=at_ms)


def decode(data: bytes) -> PartitionMetadata:
    """What the file's bytes say."""
    values = parse(data)
    commit_time, depth = values.get(_COMMIT_TIME), values.get(_DEPTH)
    if commit_time is None or not is_instant_time(commit_time):
        raise FormatError(f"{_COMMIT_TIME} is {commit_time!r}, not an instant time")
    if depth is None or not (depth.isascii() and depth.isdigit() and len(depth) <= 9):
        raise FormatError(f"{_DEPTH} is {depth!r}, not a small whole number")
    return PartitionMetadata(InstantTime(commit_time), int(depth))
