"""XXH64, the hash by which Apache Hudi makes names out of names; slow, for short texts."""

from __future__ import annotations

from struct import iter_unpack, unpack_from

SEED = 0xFFFFFFFFDABADABA  # Apache Hudi's: a negative int that became a long

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = SEED) -> int:
    """The 64-bit hash of some bytes."""
    stripes_end = len(data) - len(data) % 32
    if stripes_end:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        for words in iter_unpack("<4Q", data[:stripes_end]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        turns = zip(lanes, (1, 7, 12, 18), strict=True)
        value = sum(_rotate(lane, bits) for lane, bits in turns)
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _P1 + _P4
    else:
        value = seed + _P5
    return _avalanche(_tail((value + len(data)) & _MASK, data[stripes_end:]))


def _tail(value: int, rest: bytes) -> int:
    at = 0
    while at + 8 <= len(rest):
        value = _rotate(value ^ _round(0, unpack_from("<Q", rest, at)[0]), 27) * _P1 + _P4
        at += 8
    if at + 4 <= len(rest):
        value = _rotate(value ^ unpack_from("<I", rest, at)[0] * _P1, 23) * _P2 + _P3
        at += 4
    for byte in rest[at:]:
        value = _rotate(value ^ byte * _P5, 11) * _P1
    return value & _MASK


def _avalanche(value: int) -> int:
    value = ((value ^ value >> 33) * _P2) & _MASK
    value = ((value ^ value >> 29) * _P3) & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return (_rotate(lane + word * _P2, 31) * _P1) & _MASK


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK
