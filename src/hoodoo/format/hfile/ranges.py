"""Which blocks a reader fetches in one request, and which of them may hold a key or a prefix."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hoodoo.format.hfile.index import IndexEntry


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks, by number, that are fetched with one request; and what is looked for in them.

    `wanted` is a range of the sorted keys or prefixes that are looked for.
    """

    blocks: tuple[int, ...]
    start: int
    end: int
    wanted: range


def group_blocks(
    index: Sequence[IndexEntry],
    wanted: Iterable[tuple[int, range]],
    *,
    gap_bytes: int,
    group_bytes: int,
) -> Iterator[Group]:
    """Blocks, in order, with what is wanted of each: together where few bytes lie between them."""
    group: Group | None = None
    for number, asked in wanted:
        block = index[number]
        if group is not None:
            near = block.offset - group.end <= gap_bytes
            if near and block.end - group.start <= group_bytes:
                both = range(min(group.wanted.start, asked.start), asked.stop)
                group = Group((*group.blocks, number), group.start, block.end, both)
                continue
            yield group
        group = Group((number,), block.offset, block.end, asked)
    if group is not None:
        yield group


def batch_groups(groups: Iterable[Group], *, batch_bytes: int) -> Iterator[tuple[Group, ...]]:
    """Groups, in order, that are decoded together: so much of the file, or a group alone."""
    batch: list[Group] = []
    size = 0
    for group in groups:
        more = group.end - group.start
        if batch and size + more > batch_bytes:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(group)
        size += more
    if batch:
        yield tuple(batch)


def blocks_of_keys(rows: Sequence[bytes], keys: Sequence[bytes]) -> list[tuple[int, range]]:
    """The blocks that may hold any of the sorted, distinct keys, and which keys those are."""
    wanted: dict[int, range] = {}
    at = 0
    while at < len(keys):
        block = bisect_right(rows, keys[at]) - 1
        end = len(keys) if block + 1 == len(rows) else bisect_left(keys, rows[block + 1], at)
        # A key that blocks begin with may have begun in the block before.
        for earlier in range(max(bisect_left(rows, keys[at]) - 1, 0), block):
            wanted[earlier] = range(wanted.get(earlier, range(at, at)).start, at + 1)
        if block >= 0:
            wanted[block] = range(wanted.get(block, range(at, at)).start, end)
        at = end
    return sorted(wanted.items(), key=lambda item: item[0])


def blocks_of_prefixes(rows: Sequence[bytes], prefixes: Sequence[bytes]) -> list[tuple[int, range]]:
    """The blocks that may hold keys with any of the sorted prefixes, and which those are.

    No prefix is the start of another one.
    """
    wanted: dict[int, range] = {}
    for number, prefix in enumerate(prefixes):
        after = after_prefix(prefix)
        end = len(rows) if after is None else bisect_left(rows, after)
        for block in range(max(bisect_left(rows, prefix) - 1, 0), end):
            wanted[block] = range(wanted.get(block, range(number, number)).start, number + 1)
    return sorted(wanted.items(), key=lambda item: item[0])


def after_prefix(prefix: bytes) -> bytes | None:
    """The least bytes that are greater than all with this prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
