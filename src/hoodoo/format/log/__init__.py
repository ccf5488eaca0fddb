"""Log files: blocks of rows, deletes and commands appended to a file slice (bytes <-> values)."""

from hoodoo.format.log.blocks import Block, BlockType, CorruptRange, Header, HeaderKey, LogBlocks
from hoodoo.format.log.commands import rollback_block, rollback_target
from hoodoo.format.log.data import avro_block, cdc_block, decode_data, parquet_block
from hoodoo.format.log.deletes import DELETES, decode_deletes, delete_block, deletes_of
from hoodoo.format.log.hfile_data import (
    decode_hfile,
    encode_first_log,
    encode_metadata_log,
    hfile_block,
    open_hfile,
)
from hoodoo.format.log.positions import decode_positions, encode_positions
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.log.scan import LogScan, scan_blocks
from hoodoo.format.log.writer import encode_block, encode_blocks

__all__ = [
    "DELETES",
    "Block",
    "BlockType",
    "CorruptRange",
    "Header",
    "HeaderKey",
    "LogBlocks",
    "LogScan",
    "avro_block",
    "cdc_block",
    "decode_data",
    "decode_deletes",
    "decode_hfile",
    "decode_positions",
    "delete_block",
    "deletes_of",
    "encode_block",
    "encode_blocks",
    "encode_first_log",
    "encode_metadata_log",
    "encode_positions",
    "hfile_block",
    "open_hfile",
    "parquet_block",
    "read_blocks",
    "rollback_block",
    "rollback_target",
    "scan_blocks",
]
