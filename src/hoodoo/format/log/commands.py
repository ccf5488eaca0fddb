"""Command blocks: no content, three header entries.

    INSTANT_TIME          the rollback that wrote the block
    TARGET_INSTANT_TIME   the instant that is rolled back
    COMMAND_BLOCK_TYPE    "0", roll back; there is no other command

Tables before version 8 append them; from 8 on a rollback deletes log files instead.
"""

from __future__ import annotations

from hoodoo.errors import UnsupportedVersion
from hoodoo.format.log.blocks import Block, BlockType, HeaderKey
from hoodoo.model.instant import InstantTime

_ROLLBACK = "0"


def rollback_block(*, instant_time: InstantTime, target: InstantTime) -> Block:
    """The command of the rollback `instant_time` to drop all earlier blocks of `target`."""
    return Block(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant_time,
            HeaderKey.TARGET_INSTANT_TIME: target,
            HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK,
        },
    )


def rollback_target(block: Block) -> InstantTime:
    """The instant whose blocks a command block drops."""
    command = block.required(HeaderKey.COMMAND_BLOCK_TYPE)
    if command != _ROLLBACK:
        raise UnsupportedVersion(what="log command", version=command)
    return InstantTime(block.required(HeaderKey.TARGET_INSTANT_TIME))
