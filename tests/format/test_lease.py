"""The lease object, byte for byte as Apache Hudi writes it and as it reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import FormatError
from hoodoo.format.json_files import Lease, decode_lock_file, encode_lock_file

# Written by StorageLockFile.toByteArray of Apache Hudi 1.2.0.
UUID = "b3f1c2d4-0000-4000-8000-000000000001"
JAVA = [
    (
        Lease(UUID, 1767225600000),
        b'{"expired":false,"validUntil":1767225600000,"owner":"%s"}' % UUID.encode(),
    ),
    (Lease("", 0, expired=True), b'{"expired":true,"validUntil":0,"owner":""}'),
    (
        Lease('a "b" \\ / é日 \n\t\x7f', 2**63 - 1),
        b'{"expired":false,"validUntil":9223372036854775807,'
        b'"owner":"a \\"b\\" \\\\ / \xc3\xa9\xe6\x97\xa5 \\n\\t\x7f"}',
    ),
]


@pytest.mark.parametrize(("lease", "data"), JAVA)
def test_bytes_of_apache_hudi(lease: Lease, data: bytes) -> None:
    assert encode_lock_file(lease) == data
    assert decode_lock_file(data) == lease


@pytest.mark.parametrize(
    ("data", "lease"),
    [
        (b'{"expired":false,"validUntil":5,"owner":"x","more":[1]}', Lease("x", 5)),
        (b'{"expired":false,"validUntil":5,"owner":null}', Lease("", 5)),
        (b' {"owner":"x",\n"expired":true,"validUntil":-5}', Lease("x", -5, expired=True)),
        (b'{"expired":false,"validUntil":5,"owner":"\\u0001\\uD83D\\uDE00"}', Lease("\x01😀", 5)),
    ],
)
def test_what_apache_hudi_accepts(data: bytes, lease: Lease) -> None:
    assert decode_lock_file(data) == lease


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"{",
        b"[" * 100_000,
        b'{"validUntil":5,"owner":"x"}',
        b'{"expired":false,"owner":"x"}',
        b'{"expired":false,"validUntil":5}',
        b'{"expired":null,"validUntil":5,"owner":"x"}',
        b'{"expired":false,"validUntil":null,"owner":"x"}',
        b'{"expired":false,"validUntil":true,"owner":"x"}',
        b'{"expired":false,"validUntil":5.5,"owner":"x"}',
        b'{"expired":false,"validUntil":99999999999999999999,"owner":"x"}',
        b'{"expired":false,"validUntil":5,"owner":"\xff"}',
    ],
)
def test_invalid_bytes_are_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="lease"):
        decode_lock_file(data)


@given(st.builds(Lease, st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans()))
def test_lease_round_trips(lease: Lease) -> None:
    assert decode_lock_file(encode_lock_file(lease)) == lease
