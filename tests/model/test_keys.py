"""Record keys and partition paths as text."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import ConfigError, InputError
from hoodoo.model.dates import TimestampRule, TimestampType, format_date, parse_date
from hoodoo.model.keys import KeyGenerator, KeyRule, escape, java_double, text_of, unescape
from hoodoo.model.paths import PartitionPath

SIMPLE = KeyRule(KeyGenerator.SIMPLE, ("id",), ("city",), hive_style=True)


def encoded(**changes: bool) -> KeyRule:
    return KeyRule(
        KeyGenerator.SIMPLE, ("id",), ("city",), hive_style=True, url_encode=True, **changes
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("sf", "city=sf"),
        ("new york", "city=new york"),
        ("ñandú", "city=ñandú"),
        (None, "city=__HIVE_DEFAULT_PARTITION__"),
        ("", "city=__HIVE_DEFAULT_PARTITION__"),
        (7, "city=7"),
        (True, "city=true"),
        (date(2026, 1, 2), "city=2026-01-02"),
        (Decimal("1.50"), "city=1.50"),
        ("a/b", "city=a/b"),
    ],
)
def test_values_become_path_segments(value: object, text: str) -> None:
    assert SIMPLE.partition_path([value]) == text


@pytest.mark.parametrize("value", ["/", "a/", "/a", "a//b", "..", "a/../b"])
def test_values_that_cannot_be_directories_are_refused_unless_escaped(value: str) -> None:
    with pytest.raises(InputError):
        KeyRule(KeyGenerator.SIMPLE, ("id",), ("city",)).partition_path([value])
    if ".." not in value:
        assert "/" not in encoded().segment("city", value)


def test_escaping_is_that_of_apache_hudi() -> None:
    assert escape("a/b:c%d=e") == "a%2Fb%3Ac%25d%3De"
    assert escape("a b}ñ") == "a b}ñ"
    assert escape("\x01\x7f") == "%01%7F"


@given(st.text())
def test_escaping_is_undone(text: str) -> None:
    assert unescape(escape(text)) == text


@given(st.text(min_size=1).filter(lambda text: text not in (".", "..")))
def test_values_are_read_back_from_paths(text: str) -> None:
    path = encoded().partition_path([text])
    assert encoded().values_in(path) == {"city": text}


def test_values_are_unknown_for_paths_without_them() -> None:
    assert SIMPLE.values_in(PartitionPath("city=a/b")) == {}
    unknown = PartitionPath("city=__HIVE_DEFAULT_PARTITION__")
    assert SIMPLE.values_in(unknown) == {"city": None}


@pytest.mark.parametrize(
    ("number", "text"),
    [  # as java.lang.Double.toString prints them
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (1234567.0, "1234567.0"),
        (12345678.0, "1.2345678E7"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1e21, "1.0E21"),
        (-2.5e-10, "-2.5E-10"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_printed_as_java_does(number: float, text: str) -> None:
    assert java_double(number) == text


def test_unusable_key_values_are_refused() -> None:
    for value in (datetime(2026, 1, 1), b"x", [1]):
        with pytest.raises(InputError):
            text_of(value)


MOMENT = datetime(2026, 3, 7, 16, 5, 9, 120_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy/MM/dd/HH", "2026/03/07/16"),
        ("yyyyMMdd", "20260307"),
        ("yy-M-d", "26-3-7"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-03-07T16:05:09.120"),
        ("yyyy-MM-dd hh a", "2026-03-07 04 PM"),
        ("'week' D", "week 66"),
    ],
)
def test_java_date_patterns_format_as_in_java(pattern: str, text: str) -> None:
    assert format_date(MOMENT, pattern) == text


def test_parsing_dates() -> None:
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
    assert parse_date("2026-03-07T16:05:09.120Z", pattern, UTC) == MOMENT
    assert parse_date("2026-03-07T17:05:09.120+0100", pattern, UTC) == MOMENT
    assert parse_date("2026-13-07", "yyyy-MM-dd", UTC) is None
    assert parse_date("junk", "yyyy-MM-dd", UTC) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TimestampType.UNIX_TIMESTAMP, 1_772_899_509),
        (TimestampType.EPOCHMILLISECONDS, 1_772_899_509_120),
        (TimestampType.EPOCHMICROSECONDS, 1_772_899_509_120_000),
        (TimestampType.SCALAR, 1_772_899_509),
        (TimestampType.DATE_STRING, "2026-03-07 16:05"),
        (TimestampType.DATE_STRING, "07.03.2026 16:05"),
    ],
)
def test_timestamp_based_paths(kind: TimestampType, value: object) -> None:
    rule = TimestampRule(kind, "yyyy/MM/dd/HH", ("yyyy-MM-dd HH:mm", "dd.MM.yyyy HH:mm"))
    assert rule.path_of(value) == "2026/03/07/16"
    keys = KeyRule(KeyGenerator.TIMESTAMP, ("id",), ("ts",), hive_style=True, timestamp=rule)
    assert keys.partition_path([value]) == "ts=2026/03/07/16"


def test_timestamp_null_and_zones() -> None:
    rule = TimestampRule(TimestampType.UNIX_TIMESTAMP, "yyyy/MM/dd HH", output_zone="Asia/Tokyo")
    assert rule.path_of(None) == "1970/01/01 09"
    assert rule.path_of(1_772_899_509) == "2026/03/08 01"
    with pytest.raises(InputError):
        rule.path_of("text without a format")
    days = replace(rule, type=TimestampType.SCALAR, scalar_unit="DAYS")
    assert days.path_of(None) == "1970/01/02 09"
    assert days.path_of(1.75) == "1970/01/02 09"


def test_numbers_beyond_the_years_of_python_have_a_path() -> None:
    seconds = TimestampRule(TimestampType.UNIX_TIMESTAMP, "yyyy/MM/dd HH:mm:ss")
    assert seconds.path_of(1_705_314_600_123_456) == "54041238/06/08 10:17:36"
    assert seconds.path_of(-(2**62)) == "-292275055/05/16 16:47:04"  # as far as Java counts


def test_texts_stay_in_their_zone_unless_there_is_another_for_paths() -> None:
    pattern = ("yyyy-MM-dd HH:mmZ", "yyyy-MM-dd HH:mm")
    rule = TimestampRule(TimestampType.DATE_STRING, "yyyy-MM-dd HH", pattern)
    assert rule.path_of("2024-01-15 23:30-0500") == "2024-01-15 23"
    assert replace(rule, input_zone="Asia/Tokyo").path_of("2024-01-15 23:30-0500") == (
        "2024-01-16 13"
    )
    assert replace(rule, input_zone="Asia/Tokyo").path_of("2024-01-15 23:30") == "2024-01-15 23"
    assert replace(rule, output_zone="UTC").path_of("2024-01-15 23:30-0500") == "2024-01-16 04"
    days = replace(rule, input_formats=("yyyy-MM-dd",), output_zone="UTC", input_zone="GMT+8")
    assert days.path_of(None) == "1969-12-31 16"  # the day of millisecond 1 begins before it


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"output_format": "yyyy QQ"}, "output.dateformat"),
        ({"output_format": "xxxx"}, "output.dateformat"),  # Joda's week year
        ({"output_format": "'only text'"}, "output.dateformat"),
        ({"input_formats": ("yy-MM-dd",)}, "input.dateformat"),  # of which century?
        ({"input_formats": ("yyyy-MMM-dd",)}, "input.dateformat"),
        ({"input_formats": ()}, "input.dateformat"),
        ({"input_zone": "Mars/Olympus"}, "timezone"),
        ({"output_zone": "+08:00"}, "timezone"),  # Java takes it for GMT
    ],
)
def test_patterns_and_zones_that_hudi_takes_otherwise_are_refused(
    settings: dict[str, Any], key: str
) -> None:
    sound = TimestampRule(TimestampType.DATE_STRING, "yyyy/MM/dd", ("yyyy-MM-dd",))
    sound.check()
    with pytest.raises(ConfigError, match=f"hoodie.keygen.timebased.{key}"):
        replace(sound, **settings).check()
