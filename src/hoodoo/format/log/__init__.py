"""Log files: blocks of rows, deletes and commands on top of a base file.

Read in this order:
    `blocks`    the values of a log file (block, type, header) and their bytes
    `reader`    bytes -> blocks; skips what a crashed writer left
    `scan`      which blocks of a file slice count, and in which order
    `data`      data blocks: rows as Avro or Parquet, change records, HFiles of the metadata table
    `deletes`   delete blocks: keys, each with its ordering value
    `ordering`  ordering values in Avro binary <-> Arrow unions

In: the bytes of log files; rows and keys as Arrow tables. Out: live blocks in order
(`scan.scan_blocks`), the rows and deletes of a block, the bytes of a new file.
Not here: merging rows with a base file (read/log_files, rows/merge), writing a log file of a table
(write/files/log_files).
"""

from hoodoo.format.log.blocks import (
    Block,
    BlockType,
    CorruptRange,
    Header,
    HeaderKey,
    LogBlocks,
    encode_block,
    encode_blocks,
    rollback_block,
    rollback_target,
)
from hoodoo.format.log.data import (
    avro_block,
    cdc_block,
    decode_data,
    decode_hfile,
    encode_first_log,
    encode_metadata_log,
    hfile_block,
    open_hfile,
    parquet_block,
)
from hoodoo.format.log.deletes import DELETES, decode_deletes, delete_block, deletes_of
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.log.scan import LogScan, scan_blocks

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
    "delete_block",
    "deletes_of",
    "encode_block",
    "encode_blocks",
    "encode_first_log",
    "encode_metadata_log",
    "hfile_block",
    "open_hfile",
    "parquet_block",
    "read_blocks",
    "rollback_block",
    "rollback_target",
    "scan_blocks",
]
