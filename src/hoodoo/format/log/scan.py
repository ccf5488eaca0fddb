"""Which blocks of a file slice count, and in which order.

Two passes, as Apache Hudi 1.x does it:

1. Forward. Blocks that the reader may not see are left out. The others are gathered by instant, in
   the order in which the instants first appear. A rollback block drops what its target has written
   so far; blocks of the same instant after it are a new attempt and stay. Rollback blocks are
   obeyed whatever their own instant: what they drop was never committed.
2. Backward. Blocks that a log compaction wrote replace the blocks of the instants that they name,
   at the place of the newest of those; compacted blocks may be compacted again. Where none of
   those instants is here, the compacted blocks stay where they are.

BLOCK_IDENTIFIER is ignored: telling a retried task's blocks apart by it lost data, and Apache Hudi
took it back; keys make the second copy harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hoodoo.format.log.blocks import Block, BlockType, rollback_target
from hoodoo.model.instant import InstantTime


@dataclass(frozen=True, slots=True)
class LogScan:
    """The data and delete blocks to merge, in order; and how many blocks were left out, and why."""

    blocks: tuple[Block, ...]
    invisible: int
    rolled_back: int
    compacted_blocks: int


def scan_blocks(
    blocks: Iterable[Block],
    *,
    latest: InstantTime | None = None,
    is_visible: Callable[[InstantTime], bool] | None = None,
) -> LogScan:
    """The live blocks among those of a slice's log files, given in order of files and in them.

    `latest` is the newest instant that the query may see. `is_visible` says whether an instant is
    completed; tables before version 8 need it, from 8 on whole files are visible or not. CDC
    blocks hold no rows of the table and are passed over.
    """
    by_instant: dict[InstantTime, list[Block]] = {}
    invisible = rolled_back = 0
    for block in blocks:
        if block.type is BlockType.COMMAND:
            rolled_back += len(by_instant.pop(rollback_target(block), ()))
        elif block.type.is_data or block.type is BlockType.DELETE:
            time = block.instant_time
            if (latest is not None and time > latest) or (is_visible and not is_visible(time)):
                invisible += 1
            else:
                by_instant.setdefault(time, []).append(block)
    order = _drop_compacted(by_instant)
    live = tuple(block for time in order for block in by_instant[time])
    compacted_blocks = sum(map(len, by_instant.values())) - len(live)
    return LogScan(live, invisible, rolled_back, compacted_blocks)


def _drop_compacted(by_instant: dict[InstantTime, list[Block]]) -> list[InstantTime]:
    """The instants whose blocks count, in the order in which they count."""
    earlier = set(by_instant)
    replaced_by: dict[InstantTime, InstantTime] = {}
    order: dict[InstantTime, None] = {}
    for time in reversed(by_instant):
        earlier.discard(time)
        sources = [source for source in by_instant[time][0].compacted_times if source in earlier]
        final = replaced_by.get(time, time)
        replaced_by.update(dict.fromkeys(sources, final))
        if not sources:
            order.setdefault(final)
    return list(reversed(order))
