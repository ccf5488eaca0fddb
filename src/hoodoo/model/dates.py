"""Java date patterns (`yyyy/MM/dd HH:mm:ss.SSS`), enough of them for timestamp-based partitions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from zoneinfo import ZoneInfo

from hoodoo.errors import ConfigError, InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August"]
_MONTHS += ["September", "October", "November", "December"]


class TimestampType(Enum):
    """What the values of the partition column of a timestamp-based key generator are."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    SCALAR = "SCALAR"


_UNITS = {  # how many milliseconds there are in how many of them
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (1_000, 1),
    "MINUTES": (60_000, 1),
    "HOURS": (3_600_000, 1),
    "DAYS": (86_400_000, 1),
}
_UNIT_OF_TYPE = {
    TimestampType.UNIX_TIMESTAMP: "SECONDS",
    TimestampType.EPOCHMILLISECONDS: "MILLISECONDS",
    TimestampType.EPOCHMICROSECONDS: "MICROSECONDS",
}
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class TimestampRule:
    """How a value becomes a partition path through a point in time, as in Apache Hudi.

    Numbers count units of time; texts are dates. A zone of None is UTC, but a text that names
    its zone, or is in `input_zone`, is printed in that one unless there is an `output_zone`.
    """

    type: TimestampType
    output_format: str
    input_formats: tuple[str, ...] = ()
    input_zone: str | None = None
    output_zone: str | None = None
    scalar_unit: str = "SECONDS"

    @property
    def unit(self) -> str | None:
        """The unit that numbers count; None if values are texts."""
        if self.type is TimestampType.SCALAR:
            return self.scalar_unit
        return _UNIT_OF_TYPE.get(self.type)

    def path_of(self, value: object) -> str:
        """The path text of one value."""
        if value is None:
            value = self._default()
        if isinstance(value, str):
            moment = self._parse(value)
            out = zone(self.output_zone) if self.output_zone else moment.tzinfo
            return format_date(moment.astimezone(out), self.output_format)
        return format_epoch_ms(
            self.epoch_ms(value), zone(self.output_zone or "UTC"), self.output_format
        )

    def epoch_ms(self, value: object) -> int:
        """The point in time that a number means."""
        unit = self.unit
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or unit is None:
            raise InputError(f"{value!r} cannot be a timestamp of type {self.type.value}")
        # As Java does: fractions of a unit are dropped first, towards zero, then those of a
        # millisecond; what is too large is the largest there is.
        count = _whole(value)
        times, parts = _UNITS[unit]
        ms = abs(count) * times // parts
        return _within_64_bits(ms if count >= 0 else -ms)

    def check(self) -> None:
        """Refuse patterns and zones that we cannot print or read as Apache Hudi does."""
        _check_pattern("output.dateformat", self.output_format, _PRINT_WIDTHS)
        if self.unit is None and not self.input_formats:
            raise _config_error("input.dateformat", "", f"is needed by type {self.type.value}")
        for pattern in self.input_formats:
            _check_pattern("input.dateformat", pattern, _READ)
        for name in (self.input_zone, self.output_zone):
            zone(name or "UTC")

    def _default(self) -> object:
        """What stands for null: 1, in the unit that numbers count; as a text, millisecond 1."""
        if self.unit is not None:
            return 1
        place = zone(self.input_zone or self.output_zone or "UTC")
        return format_epoch_ms(1, place, self.input_formats[0])

    def _parse(self, text: str) -> datetime:
        for pattern in self.input_formats:
            moment = parse_date(text, pattern, zone(self.input_zone or "UTC"))
            if moment is not None:
                return moment.astimezone(zone(self.input_zone)) if self.input_zone else moment
        raise InputError(f"{text!r} fits none of the input date formats {list(self.input_formats)}")


def _whole(value: int | float | Decimal) -> int:
    """A number without its fraction, within 64 bits; what is no number is 0."""
    if value != value:
        return 0
    if value in (math.inf, -math.inf):
        return _MOST if value > 0 else _LEAST
    return _within_64_bits(int(value))


def _within_64_bits(number: int) -> int:
    return max(_LEAST, min(number, _MOST))


def scalar_unit(text: str) -> str:
    """Check the unit of a SCALAR timestamp."""
    if text.upper() not in _UNITS:
        raise ValueError(f"expected one of {', '.join(_UNITS)}")
    return text.upper()


def zone(name: str) -> tzinfo:
    """A time zone by IANA name or `GMT+8`; Java takes other offsets for GMT, we refuse them."""
    if name in ("UTC", "GMT", "Z"):
        return UTC
    if name.startswith(("GMT+", "GMT-")):
        try:
            return _offset(name[3:])
        except ValueError:
            raise _config_error("timezone", name, "unknown time zone") from None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _config_error("timezone", name, "unknown time zone") from None


def _offset(text: str) -> tzinfo:
    """The zone of `Z`, `+8`, `+0800` or `+08:00`."""
    if text == "Z":
        return UTC
    match = re.fullmatch(r"([+-])(\d{1,2})(?::?(\d{2}))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not an offset")
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return timezone(offset if match[1] == "+" else -offset)


def _config_error(key: str, value: str, reason: str) -> ConfigError:
    return ConfigError(key=f"hoodie.keygen.timebased.{key}", value=value, reason=reason)


# Years that Python's calendar has, with room for any time zone; outside, the calendar is that of
# a year inside: it repeats every 400 years.
_FIRST_MS = (datetime(100, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST_MS = (datetime(9000, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_CYCLE_MS = 146_097 * 86_400_000


def format_epoch_ms(epoch_ms: int, place: tzinfo, pattern: str) -> str:
    """A point in time in a Java date pattern; any that 64 bits hold."""
    cycles = 0
    if not _FIRST_MS <= epoch_ms < _LAST_MS:
        cycles = (epoch_ms - (_FIRST_MS if epoch_ms < 0 else _LAST_MS)) // _CYCLE_MS
    moment = _EPOCH + timedelta(milliseconds=epoch_ms - cycles * _CYCLE_MS)
    there = moment.astimezone(place)
    local_ms = epoch_ms + (there.utcoffset() or timedelta()) // timedelta(milliseconds=1)
    if local_ms != _within_64_bits(local_ms):
        there = moment  # Joda's way out: UTC
    return format_date(there, pattern, more_years=400 * cycles)


def format_date(moment: datetime, pattern: str, *, more_years: int = 0) -> str:
    """A moment in a Java date pattern (Joda's letters)."""
    year = moment.year + more_years
    return "".join(_format_token(moment, year, token) for token in _tokens(pattern))


def _format_token(moment: datetime, year: int, token: str) -> str:
    letter, width = token[0], len(token)
    match letter:
        case "y" if width == 2:
            return f"{abs(year) % 100:02d}"
        case "y":
            return f"{'-' if year < 0 else ''}{abs(year):0{width}d}"
        case "M" if width >= 3:
            name = _MONTHS[moment.month - 1]
            return name[:3] if width == 3 else name
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
        case "Z":
            offset = moment.strftime("%z")[:5]
            return offset if width == 1 else f"{offset[:3]}:{offset[3:]}"
        case _:
            return token[1:]


_FIELD_PATTERNS = {
    "y": r"(?P<year>\d{4})",
    "M": r"(?P<month>\d{1,2})",
    "d": r"(?P<day>\d{1,2})",
    "H": r"(?P<hour>\d{1,2})",
    "m": r"(?P<minute>\d{1,2})",
    "s": r"(?P<second>\d{1,2})",
    "S": r"(?P<fraction>\d{1,9})",
    "Z": r"(?P<zone>Z|[+-]\d{2}:?\d{2})",
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
    fields = match.groupdict()
    zone_text = fields.get("zone")
    # Joda's: a day without a year is one of 2000, an hour without a day one of 1970-01-01.
    year = "2000" if {"month", "day"} & fields.keys() else "1970"
    fraction = (fields.get("fraction") or "0").ljust(6, "0")[:6]
    try:
        return datetime(
            int(fields.get("year") or year),
            int(fields.get("month") or 1),
            int(fields.get("day") or 1),
            int(fields.get("hour") or 0),
            int(fields.get("minute") or 0),
            int(fields.get("second") or 0),
            int(fraction),
            tzinfo=_offset(zone_text) if zone_text else default_zone,
        )
    except ValueError:
        return None


def _tokens(pattern: str) -> list[str]:
    """Fields as they are, such as four `y`, literals with a NUL in front."""
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


# The letters that we print and read as Apache Hudi does, and the counts that mean what we do.
_PRINT_WIDTHS = {letter: range(1, 10) for letter in "yMdHhmsSDa"} | {"Z": range(1, 3)}
_READ = {letter: range(1, 10) for letter in "dHmsS"} | {
    "y": (1, 3, 4),  # two digits are of a century that depends on the year we are in
    "M": (1, 2),
    "Z": (1, 2),
}


def _check_pattern(key: str, pattern: str, widths: Mapping[str, Sequence[int]]) -> None:
    try:
        fields = [token for token in _tokens(pattern) if token[0] != "\0"]
    except InputError as error:
        raise _config_error(key, pattern, str(error)) from None
    unknown = sorted(field for field in fields if len(field) not in widths.get(field[0], ()))
    if unknown:
        raise _config_error(key, pattern, f"{', '.join(unknown)}: not supported in date patterns")
    if widths is _READ and len({field[0] for field in fields}) < len(fields):
        raise _config_error(key, pattern, "a field is there twice")
    if not fields:
        raise _config_error(key, pattern, "a date pattern needs at least one field")
