"""Rows that tell who wrote them, and what a table may hold, given the journals of its writers.

Every write is about one *block*: some rows of one writer, in partitions of its own and, for every
other block, in shared ones. It writes all rows of the block with its own number, or deletes them
all. A write whose outcome its journal does not tell is there whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
ROWS = 6
SHARED = 2

Block = tuple[int, int]
"""A writer, and the number of the write that made the block."""


def rows_of(block: Block, v: int) -> pa.Table:
    """The rows of a block as the write of this number leaves them."""
    writer, number = block
    listed = [
        {"id": f"{writer}-{number}-{i}", "part": _partition(block, i), "v": v} for i in range(ROWS)
    ]
    return pa.Table.from_pylist(listed, SCHEMA)


def _partition(block: Block, i: int) -> str:
    writer, number = block
    is_shared = number % 2 and i >= ROWS // 2
    return f"shared{number // 2 % SHARED}" if is_shared else f"own{writer}"


def keys_of(block: Block) -> pa.Table:
    """What names the rows of a block in a delete."""
    return rows_of(block, 0).select(["id", "part"])


@dataclass
class Ledger:
    """What one writer's journals tell, those of its replacements included.

    Every block maps to the versions that it may be in; None is not being there.
    """

    writer: int
    versions: dict[Block, set[int | None]] = field(default_factory=dict)
    acknowledged: int = 0
    unknown: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    next_number: int = 0
    deleted: set[Block] = field(default_factory=set)
    """Blocks with a delete that may have happened: nobody writes them again."""
    made: set[Block] = field(default_factory=set)
    """Blocks that are surely there, unless deleted."""

    @classmethod
    def of(cls, writer: int, journals: Iterable[list[dict[str, Any]]]) -> Ledger:
        """Replay what the incarnations of a writer noted, in their order."""
        ledger = cls(writer)
        for entries in journals:
            ledger._replay(entries)
        return ledger

    @property
    def living(self) -> list[int]:
        """Numbers of the blocks that can be updated and deleted."""
        return sorted(number for _, number in self.made - self.deleted)

    def _replay(self, entries: list[dict[str, Any]]) -> None:
        for entry, outcome in zip(entries, [*entries[1:], None], strict=True):
            if entry["word"] != "intent":
                continue
            number, block = entry["number"], (self.writer, entry["block"])
            self.next_number = number + 1
            known = self.versions.setdefault(block, {None})
            after = None if entry["kind"] == "delete" else number
            word = outcome["word"] if outcome else "unknown"
            if word == "failed":
                error = outcome["error"] if outcome else ""
                self.failed[error] = self.failed.get(error, 0) + 1
                continue
            if entry["kind"] == "delete":
                self.deleted.add(block)
            if word == "ack":
                self.acknowledged += 1
                self.made.add(block)
                known.clear()
            else:
                self.unknown += 1
            known.add(after)


def check_rows(rows: list[Mapping[str, Any]], ledgers: Iterable[Ledger]) -> None:
    """Every acknowledged write is there, each write whole or not at all, each key once."""
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)), "a key twice"
    versions = {block: known for ledger in ledgers for block, known in ledger.versions.items()}
    found: dict[Block, list[Mapping[str, Any]]] = {}
    for row in rows:
        writer, number, _ = map(int, row["id"].split("-"))
        found.setdefault((writer, number), []).append(row)
    assert found.keys() <= versions.keys(), "rows that nobody wrote"
    for block, known in versions.items():
        check_block(block, found.get(block, []), known)


def check_block(block: Block, rows: list[Mapping[str, Any]], known: set[int | None]) -> None:
    """A block is in one of the versions that it may be in, and wholly so."""
    v = rows[0]["v"] if rows else None
    assert v in known, f"block {block} is in version {v}, not in one of {known}"
    if v is not None:
        wanted = rows_of(block, v).to_pylist()
        seen = sorted(({name: row[name] for name in SCHEMA.names} for row in rows), key=_by_id)
        assert seen == sorted(wanted, key=_by_id), f"block {block} is there in part"


def _by_id(row: Mapping[str, Any]) -> str:
    return str(row["id"])
