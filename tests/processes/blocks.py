"""Rows that tell who wrote them, and what a table may hold, given the journals of its writers.

Every write is about one *block*: some rows of one writer, in partitions of its own and, for most
blocks, in shared ones. It writes all rows of the block with its own number, or deletes them
all. A write whose outcome its journal does not tell is there whole, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
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
    is_shared = number % 3 and i >= ROWS // 2
    return f"shared{number % SHARED}" if is_shared else f"own{writer}"


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
    failed: Counter[str] = field(default_factory=Counter)
    next_number: int = 0
    living: set[int] = field(default_factory=set)
    """Blocks that are surely there: they can be updated and deleted."""

    @classmethod
    def of(cls, writer: int, journals: Iterable[list[dict[str, Any]]]) -> Ledger:
        """Replay what the incarnations of a writer noted, in their order."""
        ledger = cls(writer)
        for entries in journals:
            ledger._replay(entries)
        return ledger

    def _replay(self, entries: list[dict[str, Any]]) -> None:
        for entry, outcome in pairwise([*entries, {"word": "unknown"}]):
            if entry["word"] != "intent":
                continue
            self.next_number = entry["number"] + 1
            known = self.versions.setdefault((self.writer, entry["block"]), {None})
            if outcome["word"] == "failed":
                self.failed[outcome["error"]] += 1
                continue
            if outcome["word"] == "ack":
                self.acknowledged += 1
                known.clear()
            else:
                self.unknown += 1
            if entry["kind"] == "delete":
                known.add(None)
                self.living.discard(entry["block"])
            else:
                known.add(entry["number"])
                if outcome["word"] == "ack":
                    self.living.add(entry["block"])


Rows = list[Mapping[str, Any]]


def check_rows(rows: Rows, ledgers: Iterable[Ledger]) -> None:
    """Every acknowledged write is there, each write whole or not at all, each key once."""
    found = versions_in(rows)
    versions = {block: known for ledger in ledgers for block, known in ledger.versions.items()}
    assert found.keys() <= versions.keys(), "rows that nobody wrote"
    for block, known in versions.items():
        v = found.get(block)
        assert v in known, f"block {block} is in version {v}, not in one of {known}"


def check_rows_meanwhile(rows: Rows, before: list[Ledger], after: list[Ledger]) -> None:
    """The same of rows that were read between two looks at the journals."""
    found = versions_in(rows)
    for old, new in zip(before, after, strict=True):
        for block, known in old.versions.items():
            v = found.get(block)
            if v is None:
                assert None in known or block[1] not in new.living, f"block {block} is gone"
            else:
                oldest = min((each for each in known if each is not None), default=v)
                assert v >= oldest, f"block {block} went back to version {v}"
    written = {block for ledger in after for block in ledger.versions}
    assert found.keys() <= written, "rows that nobody wrote"


def versions_in(rows: Rows) -> dict[Block, int]:
    """The version in which each block is there; fails if one is there in part."""
    found: dict[Block, Rows] = {}
    for row in rows:
        writer, number, _ = map(int, row["id"].split("-"))
        found.setdefault((writer, number), []).append({n: row[n] for n in SCHEMA.names})
    for block, seen in found.items():
        wanted = rows_of(block, seen[0]["v"]).to_pylist()
        assert sorted(seen, key=_by_id) == sorted(wanted, key=_by_id), f"block {block} in part"
    return {block: seen[0]["v"] for block, seen in found.items()}


def _by_id(row: Mapping[str, Any]) -> str:
    return str(row["id"])
