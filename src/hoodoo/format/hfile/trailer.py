"""The end of an HFile, 4096 bytes, and its file info.

Trailer:

    8   TRABLK"$
    var length of the message as a protobuf number, then the message: the fields of `Trailer`
    var zeros
    1   minor version, 0 (HBase: 3)
    3   major version, 3

File info, the payload of its block:

    4   PBUF
    var length of the message as a protobuf number, then the message:
        repeated field 1 = { field 1: key, field 2: value }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodoo.errors import FormatError, UnsupportedVersion
from hoodoo.format.hfile.layout import (
    HFileCodec,
    decode_message,
    decode_varint,
    encode_message,
    encode_varint,
)

TRAILER_SIZE = 4096
NO_BLOCK = (1 << 64) - 1  # first_data_block_offset of a file without entries

_MAGIC = b'TRABLK"$'
_INFO_MAGIC = b"PBUF"
_MAJOR = 3
_MAX_LEVELS = 8
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"  # readers do not use it
_MVCC = b"MAX_MEMSTORE_TS_KEY"
_VERSION = b"KEY_VALUE_VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """Where the parts of a file are, and how many; the comment is the field of the message."""

    file_info_offset: int  # 1
    load_on_open_offset: int  # 2
    data_bytes: int = 0  # 3, of all data blocks, before compression; HBase: of the index
    data_index_count: int  # 5, entries of the root
    meta_index_count: int  # 6
    num_entries: int  # 7
    index_levels: int = 1  # 8
    first_data_block_offset: int = NO_BLOCK  # 9
    last_data_block_offset: int = 0  # 10
    codec: HFileCodec  # 12; 11 is the name of the comparator


def encode_trailer(trailer: Trailer) -> bytes:
    """The last 4096 bytes of a file."""
    message = encode_message(
        [
            (1, trailer.file_info_offset),
            (2, trailer.load_on_open_offset),
            (3, trailer.data_bytes),
            (5, trailer.data_index_count),
            (6, trailer.meta_index_count),
            (7, trailer.num_entries),
            (8, trailer.index_levels),
            (9, trailer.first_data_block_offset),
            (10, trailer.last_data_block_offset),
            (11, _COMPARATOR),
            (12, int(trailer.codec)),
        ]
    )
    head = _MAGIC + encode_varint(len(message)) + message
    return head.ljust(TRAILER_SIZE - 4, b"\0") + _MAJOR.to_bytes(4, "big")


def decode_trailer(data: bytes) -> Trailer:
    """The trailer, from the last 4096 bytes of a file."""
    if len(data) != TRAILER_SIZE or not data.startswith(_MAGIC):
        raise FormatError("no HFile: it does not end in a trailer")
    major = int.from_bytes(data[-3:], "big")
    if major != _MAJOR:
        raise UnsupportedVersion(what="HFile version", version=major)
    length, pos = decode_varint(data, len(_MAGIC))
    if length > TRAILER_SIZE - 4 - pos:
        raise FormatError(f"a trailer of {length} bytes does not fit")
    fields = dict(decode_message(data[pos : pos + length]))
    if fields.get(13):
        raise UnsupportedVersion(what="HFile encryption", version="on")
    levels = _number(fields, 8)
    if not 1 <= levels <= _MAX_LEVELS:
        raise FormatError(f"an index of {levels} levels")
    codec = _number(fields, 12)
    try:
        hfile_codec = HFileCodec(codec)
    except ValueError:
        raise UnsupportedVersion(what="HFile codec", version=codec) from None
    return Trailer(
        file_info_offset=_number(fields, 1),
        load_on_open_offset=_number(fields, 2),
        data_bytes=_number(fields, 3),
        data_index_count=_number(fields, 5),
        meta_index_count=_number(fields, 6),
        num_entries=_number(fields, 7),
        index_levels=levels,
        first_data_block_offset=_number(fields, 9),
        last_data_block_offset=_number(fields, 10),
        codec=hfile_codec,
    )


def _number(fields: Mapping[int, int | bytes], field: int) -> int:
    value = fields.get(field)
    if not isinstance(value, int):
        raise FormatError(f"the trailer has no number in field {field}")
    return value


def encode_file_info(info: Mapping[bytes, bytes]) -> bytes:
    """The payload of a file info block."""
    message = encode_message(
        (1, encode_message([(1, key), (2, value)])) for key, value in info.items()
    )
    return _INFO_MAGIC + encode_varint(len(message)) + message


def decode_file_info(payload: bytes) -> dict[bytes, bytes]:
    """The file info, from the payload of its block."""
    if not payload.startswith(_INFO_MAGIC):
        raise FormatError("file info that is no protobuf message")
    length, pos = decode_varint(payload, len(_INFO_MAGIC))
    if length != len(payload) - pos:
        raise FormatError(f"file info of {length} bytes does not fit")
    info: dict[bytes, bytes] = {}
    for field, pair in decode_message(payload[pos:]):
        if field != 1 or not isinstance(pair, bytes):
            raise FormatError(f"file info with a field {field}")
        parts = dict(decode_message(pair))
        key, value = parts.get(1), parts.get(2)
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise FormatError("file info without key or value")
        info[key] = value
    return info


def check_versions(info: Mapping[bytes, bytes]) -> None:
    """Refuse entries without an mvcc byte, and those with one that is not zero."""
    version = int.from_bytes(info.get(_VERSION, b""), "big")
    if version != 1:
        raise UnsupportedVersion(what="HFile key value version", version=version)
    if any(info.get(_MVCC, b"\1")):
        raise UnsupportedVersion(what="HFile mvcc", version=info.get(_MVCC))
