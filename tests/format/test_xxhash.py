"""XXH64 against values that Apache Hudi 1.2.0 made (HashID, as in the implicit lock path)."""

from __future__ import annotations

import pytest

from hoodoo.format.xxhash import xxh64

HUDI = {
    "a": 0x0451EAA7628BCEB3,
    "/data/t": 0x710D1237950927F9,
    "abcdefgh": 0x39CCEBC87A34E330,
    "file:/data/t": 0xB8447B8377C15F03,
    "s3://bucket/t": 0x12F8D3B144D2825E,
    "gs://b/日本": 0x10CCCE733FE8F628,
    "file:///data/t": 0x14174EAEC77A21A7,
    "abcdefghijklmnopqrstuvwxyz0123456789": 0x51B33984B1529380,
}


@pytest.mark.parametrize(("text", "value"), HUDI.items())
def test_values_of_apache_hudi(text: str, value: int) -> None:
    assert xxh64(text.encode()) == value


def test_published_values() -> None:
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999
