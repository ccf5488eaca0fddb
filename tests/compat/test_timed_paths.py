"""Partition paths from points in time: ours are those of Apache Hudi's own key generator."""

from __future__ import annotations

from decimal import Decimal

import pytest
from compat.peer_tables import TIMEBASED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hudi_classes import HudiClasses

from hoodoo.config.key import Config
from hoodoo.config.table import KEY_GENERATOR, key_rule
from hoodoo.model.dates import TimestampRule

FULL = "yyyy-MM-dd HH:mm:ss.SSS"
ZONES = ("UTC", "Asia/Tokyo", "GMT+8", "America/New_York", "Europe/Berlin", "Asia/Kolkata")
TYPES = {
    "seconds": {"timestamp.type": "UNIX_TIMESTAMP"},
    "millis": {"timestamp.type": "EPOCHMILLISECONDS"},
    "micros": {"timestamp.type": "EPOCHMICROSECONDS"},
    "days": {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "days"},
    "nanos": {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "NANOSECONDS"},
    "scalar": {"timestamp.type": "SCALAR"},
}
FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = st.one_of(
    st.none(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**45), 2**45),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.decimals(-(2**60), 2**60, places=3),
)


def rule_of(keys: dict[str, str]) -> TimestampRule:
    """Our rule of the same settings."""
    rule = key_rule(Config({KEY_GENERATOR.name: "TIMESTAMP", **keys})).timestamp
    assert rule is not None
    rule.check()
    return rule


def prefixed(keys: dict[str, str]) -> dict[str, str]:
    return {TIMEBASED + name: value for name, value in keys.items()}


@pytest.mark.parametrize("unit", TYPES)
@FEW
@given(value=NUMBERS, zone=st.sampled_from((None, *ZONES)))
def test_numbers(
    classes: HudiClasses, unit: str, value: int | float | Decimal | None, zone: str | None
) -> None:
    keys = prefixed(
        TYPES[unit] | {"output.dateformat": FULL} | ({"timezone": zone} if zone else {})
    )
    assert rule_of(keys).path_of(value) == classes.timed_paths(keys)(value)


@pytest.mark.parametrize(
    "pattern",
    ["yyyy/MM/dd", "yy-M-d H:m:s.S", "yyyyMMddHH", "D 'of' yyyyy", "d MMM", "MMMM hh a", "y Z ZZ"],
)
@FEW
@given(value=st.integers(-(2**45), 2**45), zone=st.sampled_from(ZONES))
def test_output_patterns(classes: HudiClasses, pattern: str, value: int, zone: str) -> None:
    keys = prefixed(TYPES["millis"] | {"output.dateformat": pattern, "output.timezone": zone})
    assert rule_of(keys).path_of(value) == classes.timed_paths(keys)(value)


TEXTS = {
    "yyyy-MM-dd": ["2024-02-29", "1969-12-31", None],
    "yyyy-MM-dd HH:mm:ss": ["2024-01-15 23:30:00", "0099-01-01 00:00:01", None],
    "yyyy-MM-dd'T'HH:mm:ss.SSSZ": [
        "2024-01-15T23:30:00.120Z",
        "2024-01-15T23:30:00.120-0500",
        "2024-01-15T00:30:00.120+05:30",
        None,
    ],
    "yyyyMMddHH, yyyy/MM/dd": ["2024011523", "2024/01/15", None],
    "MM-dd HH": ["02-29 23", None],
    "HH:mm": ["23:59", None],
}


@pytest.mark.parametrize("pattern", TEXTS)
@pytest.mark.parametrize("kind", ["DATE_STRING", "MIXED"])
@FEW
@given(
    both=st.sampled_from((None, "Asia/Tokyo")),
    read=st.sampled_from((None, "America/New_York", "GMT+8")),
    out=st.sampled_from((None, "Asia/Kolkata")),
)
def test_texts(
    classes: HudiClasses,
    kind: str,
    pattern: str,
    both: str | None,
    read: str | None,
    out: str | None,
) -> None:
    zones = {"timezone": both, "input.timezone": read, "output.timezone": out}
    formats = {"input.dateformat": pattern, "output.dateformat": FULL}
    chosen = {name: zone for name, zone in zones.items() if zone}
    keys = prefixed({"timestamp.type": kind} | formats | chosen)
    theirs = classes.timed_paths(keys)
    for text in TEXTS[pattern]:
        assert rule_of(keys).path_of(text) == theirs(text), text
