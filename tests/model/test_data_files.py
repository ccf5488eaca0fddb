"""Names of a whole listing, read in one pass, against the same names read one by one."""

from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hoodoo.model.files import BaseFile, LogFile, parse_data_file, parse_data_files
from hoodoo.model.paths import PartitionPath

_TIMES = st.integers(0, 10**17 - 1).map("{:017d}".format)
_TOKENS = st.from_regex(r"[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,3}", fullmatch=True)
_IDS = st.from_regex(r"[A-Za-z0-9-]{1,40}", fullmatch=True)
_BASES = st.builds(
    "{}_{}_{}.{}".format, _IDS, _TOKENS, _TIMES, st.sampled_from(["parquet", "orc", "hfile"])
)
_LOGS = st.builds(
    ".{}_{}.log.{}{}{}".format,
    st.one_of(_IDS, st.text("ab_. ", min_size=1)),
    _TIMES,
    st.integers(0, 10**6),
    st.one_of(st.just(""), _TOKENS.map("_{}".format)),
    st.sampled_from(["", ".cdc"]),
)
_OTHERS = st.one_of(
    st.text(max_size=12),
    st.text("a_-.0\n\r\x85\u2028", max_size=12),
    st.sampled_from(["", "\n", ".", "a_0-0-0_1.parquet\n", ".a_1.log.1_0-0-0\n", "a_0_\u0661.orc"]),
    st.builds("{}\n{}".format, _BASES, _BASES),
    st.builds("{}\n{}".format, _LOGS, _LOGS),
    _BASES.map(lambda name: name[:-1]),
    _LOGS.map(lambda name: name[1:]),
)


@given(
    st.one_of(
        st.lists(_BASES),
        st.lists(_LOGS),
        st.lists(st.one_of(_BASES, _LOGS)),
        st.lists(st.one_of(_BASES, _LOGS, _OTHERS)),
    )
)
@example(["a_0-0-0_1.parquet\na_0-0-0_2.parquet", ""])
def test_names_read_in_one_pass_are_those_read_one_by_one(names: list[str]) -> None:
    places = [PartitionPath(place) for place, _ in zip(cycle(("", "p=1", "p=2")), names)]
    sizes = list(range(len(names)))
    expected = [parse_data_file(*each) for each in zip(places, names, sizes, strict=True)]
    assert parse_data_files(iter(places), names, iter(sizes)) == expected
    found = parse_data_files(iter(places), names, iter(sizes))
    assert list(map(type, found)) == list(map(type, expected))


def test_a_file_read_in_one_pass_has_the_path_of_its_name() -> None:
    names = ["f-0_1-2-3_20250101000000000.parquet", ".f-0_20250101000000001.log.7_1-2-3.cdc"]
    base, log = parse_data_files([PartitionPath("p")] * 2, names, [5, 6])
    assert isinstance(base, BaseFile)
    assert base.path == f"p/{names[0]}"
    assert isinstance(log, LogFile)
    assert log.path == f"p/{names[1]}"
    assert (log.name.version, log.name.token, log.name.is_cdc) == (7, "1-2-3", True)


def test_as_many_places_as_names_are_wanted() -> None:
    with pytest.raises(ValueError, match="zip"):
        parse_data_files([PartitionPath("")], ["a_0-0-0_1.parquet"] * 2, [1, 2])
