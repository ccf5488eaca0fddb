"""Log files as readers take them that know nothing of log compaction."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from hoodoo.format.log.blocks import HeaderKey, encode_blocks
from hoodoo.format.log.reader import read_blocks


def copy_without_headers(table: Path, to: Path) -> Path:
    """A copy of a table in which no log says for which others it stands."""
    shutil.copytree(table, to)
    for file in to.rglob(".*.log.*"):
        blocks = read_blocks(file.read_bytes()).blocks
        plain = [
            replace(
                block,
                header={
                    key: value
                    for key, value in block.header.items()
                    if key is not HeaderKey.COMPACTED_BLOCK_TIMES
                },
            )
            for block in blocks
        ]
        file.write_bytes(encode_blocks(plain))
    return to
