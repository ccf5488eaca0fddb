"""Java date patterns (`yyyy/MM/dd HH:mm:ss.SSS`), enough of them for timestamp-based partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import Enum
from zoneinfo import ZoneInfo

from hoodoo.errors import ConfigError, InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class TimestampType(Enum):
    """What the values of the partition column of a timestamp-based key generator are."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    SCALAR = "SCALAR"


_UNITS_MS: dict[str, float] = {
    "NANOSECONDS": 1e-6,
    "MICROSECONDS": 1e-3,
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}


@dataclass(frozen=True, slots=True)
class TimestampRule:
    """How a value becomes a partition path through a point in time."""

    type: TimestampType
    output_format: str
    input_formats: tuple[str, ...] = ()
    input_zone: str = "UTC"
    output_zone: str = "UTC"
    scalar_unit: str = "SECONDS"

    def path_of(self, value: object) -> str:
        """The path text of one value."""
        moment = _EPOCH + timedelta(milliseconds=self.epoch_ms(value))
        return format_date(moment.astimezone(zone(self.output_zone)), self.output_format)

    def epoch_ms(self, value: object) -> int:
        """The point in time that a value means; null means millisecond 1, as in Apache Hudi."""
        if value is None:
            return 1
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (aware - _EPOCH) // timedelta(milliseconds=1)
        if isinstance(value, date):
            return (value - _EPOCH.date()).days * 86_400_000
        if isinstance(value, str):
            return self._parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{value!r} cannot be a timestamp for a partition path")
        match self.type:
            case TimestampType.EPOCHMICROSECONDS:
                return int(value // 1000)
            case TimestampType.UNIX_TIMESTAMP:
                return int(value * 1000)
            case TimestampType.SCALAR:
                return int(value * _UNITS_MS[self.scalar_unit])
            case _:
                return int(value)

    def _parse(self, text: str) -> int:
        for pattern in self.input_formats:
            moment = parse_date(text, pattern, zone(self.input_zone))
            if moment is not None:
                return (moment - _EPOCH) // timedelta(milliseconds=1)
        raise InputError(f"{text!r} fits none of the input date formats {list(self.input_formats)}")


def scalar_unit(text: str) -> str:
    """Check the unit of a SCALAR timestamp."""
    if text.upper() not in _UNITS_MS:
        raise ValueError(f"expected one of {', '.join(_UNITS_MS)}")
    return text.upper()


def zone(name: str) -> tzinfo:
    """A time zone by IANA name, `GMT+8`, or `+08:00`."""
    if name in ("UTC", "GMT", "Z", ""):
        return UTC
    match = re.fullmatch(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?", name)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(offset if match[1] == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            key="hoodie.keygen.timebased.timezone", value=name, reason="unknown time zone"
        ) from None


def format_date(moment: datetime, pattern: str) -> str:
    """A moment in a Java date pattern."""
    return "".join(_format_token(moment, token) for token in _tokens(pattern))


def _format_token(moment: datetime, token: str) -> str:
    letter, width = token[0], len(token)
    match letter:
        case "y" | "u":
            return f"{moment.year % 100:02d}" if width == 2 else f"{moment.year:0{width}d}"
        case "M" if width >= 3:
            return _MONTHS[moment.month - 1]
        case "M":
            return f"{moment.month:0{width}d}"
        case "d":
            return f"{moment.day:0{width}d}"
        case "H":
            return f"{moment.hour:0{width}d}"
        case "h":
            return f"{(moment.hour - 1) % 12 + 1:0{width}d}"
        case "m":
            return f"{moment.minute:0{width}d}"
        case "s":
            return f"{moment.second:0{width}d}"
        case "S":
            return f"{moment.microsecond // 1000:03d}"[:width].ljust(width, "0")
        case "D":
            return f"{moment.timetuple().tm_yday:0{width}d}"
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "Z" | "X" | "x":
            return moment.strftime("%z")
        case _:
            return token[1:]


_FIELD_PATTERNS = {
    "y": r"(?P<year>\d{4}|\d{2})",
    "u": r"(?P<year>\d{4})",
    "M": r"(?P<month>\d{1,2})",
    "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})",
    "m": r"(?P<minute>\d{1,2})",
    "s": r"(?P<second>\d{1,2})",
    "S": r"(?P<fraction>\d{1,9})",
    "Z": r"(?P<zone>Z|[+-]\d{2}:?\d{2})",
    "X": r"(?P<zone>Z|[+-]\d{2}:?\d{2})",
}


def parse_date(text: str, pattern: str, default_zone: tzinfo) -> datetime | None:
    """The moment that a text means in a Java date pattern, or None if it does not fit."""
    parts = []
    for token in _tokens(pattern):
        if token[0] == "\0":
            parts.append(re.escape(token[1:]))
        else:
            parts.append(_FIELD_PATTERNS[token[0]])
    match = re.fullmatch("".join(parts), text)
    if match is None:
        return None
    found = match.groupdict()
    year = int(found.get("year") or 1970)
    zone_text = found.get("zone")
    fraction = (found.get("fraction") or "0").ljust(6, "0")[:6]
    try:
        return datetime(
            year + 2000 if len(found.get("year") or "1970") == 2 else year,
            int(found.get("month") or 1),
            int(found.get("day") or 1),
            int(found.get("hour") or 0),
            int(found.get("minute") or 0),
            int(found.get("second") or 0),
            int(fraction),
            tzinfo=zone(zone_text) if zone_text else default_zone,
        )
    except ValueError:
        return None


def _tokens(pattern: str) -> list[str]:
    """Fields as they are (`yyyy`), literals with a NUL in front."""
    tokens = []
    position = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        text = match[0]
        if match[2]:
            tokens.append(text)
        elif text.startswith("'"):
            tokens.append("\0" + (match[1].replace("''", "'") or "'"))
        else:
            tokens.append("\0" + text)
    if position != len(pattern):
        raise InputError(f"{pattern!r} is not a date pattern")
    return tokens


def check_output_pattern(pattern: str) -> str:
    """Refuse an output pattern with letters that we cannot print."""
    return _check_pattern(pattern, set("yuMdHhmsSDaZXx"))


def check_input_pattern(pattern: str) -> str:
    """Refuse an input pattern with letters that we cannot parse."""
    return _check_pattern(pattern, set(_FIELD_PATTERNS))


def _check_pattern(pattern: str, letters: set[str]) -> str:
    try:
        tokens = _tokens(pattern)
    except InputError as error:
        raise ValueError(str(error)) from None
    unknown = {token[0] for token in tokens if token[0] != "\0"} - letters
    if unknown:
        raise ValueError(f"letters {', '.join(sorted(unknown))} are not supported in date patterns")
    fields = [token[0] for token in tokens if token[0] != "\0"]
    if not fields:
        raise ValueError("a date pattern needs at least one field")
    return pattern
