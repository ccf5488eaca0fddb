"""Java properties: the vectors are what java.util.Properties of Java 17 makes of these bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi_files import PAGES, example, files_named

from hoodoo.errors import FormatError
from hoodoo.format import properties

JAVA_VECTORS: list[tuple[bytes, dict[str, str]]] = [
    (b"a=b", {"a": "b"}),
    (b"a:b", {"a": "b"}),
    (b"a b", {"a": "b"}),
    (b"a\tb", {"a": "b"}),
    (b"a = b", {"a": "b"}),
    (b"a : b", {"a": "b"}),
    (b"a  b = c", {"a": "b = c"}),
    (b"a==b", {"a": "=b"}),
    (b"a=:b", {"a": ":b"}),
    (b"a", {"a": ""}),
    (b"a=", {"a": ""}),
    (b"=b", {"": "b"}),
    (b"", {}),
    (b"\n\r\n  \n", {}),
    (b"#a=b\n!c=d\ne=f", {"e": "f"}),
    (b"  #a=b", {}),
    (b"#x\\\na=b", {"a": "b"}),
    (b"a=b#c", {"a": "b#c"}),
    (b"a=b\\\n   c", {"a": "bc"}),
    (b"a=b\\\r\n c\r\nd=e", {"a": "bc", "d": "e"}),
    (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    (b"a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
    (b"a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    (b"a=b\\\n#c\nd=e", {"a": "b#c", "d": "e"}),
    (b"\\\n#a=b\nc=d", {"c": "d"}),
    (b"a=b\\", {"a": "b"}),
    (b"a=b\\\n", {"a": "b"}),
    (b"\\", {"": ""}),
    (b"\\\r\n", {}),
    (b"a\\=b=c", {"a=b": "c"}),
    (b"a\\:b\\ c=d", {"a:b c": "d"}),
    (b"a\\ =b", {"a ": "b"}),
    (b"a\\\\=b", {"a\\": "b"}),
    (b"a=\\ b", {"a": " b"}),
    (b"a= b ", {"a": "b "}),
    (b"a=\\tb\\nc\\rd\\fe", {"a": "\tb\nc\rd\fe"}),
    (b'a=\\q\\"\\\\', {"a": 'q"\\'}),
    (b"a=\\u00e9\\u4E2D", {"a": "é中"}),
    (b"a=\\ud83d\\ude00", {"a": "😀"}),
    (b"a=\xe9", {"a": "é"}),
    (b"\\u0061=b", {"a": "b"}),
    (b"a=1\na=2", {"a": "2"}),
    (b"a\x0cb", {"a": "b"}),
    (b"\x0c a=b", {"a": "b"}),
    (b"a=b\rc=d", {"a": "b", "c": "d"}),
    (b"a=\\\n\\\n b", {"a": "b"}),
    (b"a\\\nb=c", {"ab": "c"}),
    (b'k={"type"\\:"record"}', {"k": '{"type":"record"}'}),
    (b"\x00=\x01", {"\x00": "\x01"}),
    (b"a=\x85b", {"a": "\x85b"}),
    (b"a\xa0b=c", {"a\xa0b": "c"}),
]

# No surrogates: they are not characters.
TEXT = st.text(max_size=12) | st.text(alphabet=" \t\f\n\r=:#!\\u0aé中😀", max_size=12)


@pytest.mark.parametrize(("data", "expected"), JAVA_VECTORS)
def test_parse_does_as_java_does(data: bytes, expected: dict[str, str]) -> None:
    assert properties.parse(data) == expected


@pytest.mark.parametrize("data", [b"a=\\u00g1", b"a=\\u12", b"a=\\u", b"\\u123=b", b"a=\\u 123"])
def test_bad_unicode_escape(data: bytes) -> None:
    with pytest.raises(FormatError, match="hexadecimal"):
        properties.parse(data)


@pytest.mark.parametrize("data", [b"a=\\ud83d", b"a=\\ude00\\ud83d", b"\\udfff=b"])
def test_half_a_surrogate_pair(data: bytes) -> None:
    with pytest.raises(FormatError, match="surrogate"):
        properties.parse(data)


@given(st.binary(max_size=60) | st.text(alphabet="ab\\u0d8=: \n\r#", max_size=60).map(str.encode))
def test_any_bytes_parse_or_give_a_format_error(data: bytes) -> None:
    try:
        parsed = properties.parse(data)
    except FormatError:
        return
    "".join([*parsed, *parsed.values()]).encode()  # whatever comes out can be printed


@given(st.dictionaries(TEXT, TEXT, max_size=6), TEXT)
def test_round_trip(values: dict[str, str], comment: str) -> None:
    text = properties.serialise(values, comment=comment, at_ms=0)
    assert properties.parse(text) == values
    assert text.isascii()


def test_serialise_is_sorted_and_escapes_only_what_it_must() -> None:
    text = properties.serialise(
        {"b": "yyyy-MM-dd'T'HH:mm:ss=#!", "a": " \\ \t\né😀 ", "c d": ""},
        comment=properties.updated_at(1772922383352),
        at_ms=1772922383352,
    )
    assert text.decode() == (
        "#Updated at 2026-03-07T22:26:23.352Z\n"
        "#Sat Mar 07 22:26:23 UTC 2026\n"
        "a=\\ \\\\ \\t\\n\\u00e9\\ud83d\\ude00 \n"
        "b=yyyy-MM-dd'T'HH:mm:ss=#!\n"
        "c\\ d=\n"
    )


def test_a_comment_stays_one_comment() -> None:
    text = properties.serialise({}, comment="one\ntwo=three")
    assert text == b"#one\\ntwo=three\n"
    assert properties.saved_at(0) == "Properties saved on 1970-01-01T00:00:00.000Z"


def test_checksum_of_known_tables() -> None:
    table = {"hoodie.table.name": "v9_txns_mor_simple_meta", "hoodie.database.name": "default"}
    assert properties.checksum(table) == 1101448031
    assert properties.checksum({"hoodie.table.name": "v9_txns_mor_simple_meta_metadata"}) == (
        2022389452
    )


def test_verify() -> None:
    table = {"hoodie.table.name": "t", "hoodie.database.name": "d"}
    properties.verify(table)
    properties.verify(table | {"hoodie.table.checksum": str(properties.checksum(table))})
    for wrong in ("", "x", "1", "-1"):
        with pytest.raises(FormatError, match=r"hoodie\.table\.checksum"):
            properties.verify(table | {"hoodie.table.checksum": wrong})
    with pytest.raises(FormatError, match=r"hoodie\.table\.name is missing"):
        properties.verify({"hoodie.table.checksum": "1"})


def test_every_fixture(fixtures: Path) -> None:
    found = list(files_named(fixtures, "hoodie.properties"))
    assert len(found) >= 29
    with_checksum = 0
    for path, data in found:
        values = properties.parse(data)
        assert values["hoodie.table.version"] in ("6", "8", "9"), path
        assert "\\" not in values.get("hoodie.table.create.schema", ""), path
        properties.verify(values)
        with_checksum += "hoodie.table.checksum" in values
        assert properties.parse(properties.serialise(values)) == values, path
    assert with_checksum >= 29


def test_the_example_of_the_page() -> None:
    values = properties.parse(example("properties.md", "properties").encode("iso-8859-1"))
    page = (PAGES / "properties.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| ([a-z][\w.]*) \| `(.*)` \|$", page, re.MULTILINE))
    assert len(stated) == 7
    assert values == stated
    properties.verify(values)
