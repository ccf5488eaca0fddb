"""HFiles: sorted keys and values, the base files and log blocks of the metadata table.

Read in this order:
    `layout`   the layout of a file; variable-length numbers and protobuf messages
    `blocks`   one block <-> its payload: header, compression, checksums
    `entries`  entries of data blocks <-> Arrow arrays
    `index`    which blocks may hold a key or a prefix, and which are fetched together
    `trailer`  the last 4096 bytes, and the file info
    `reader`   `HFileReader`: all entries, some keys, or prefixes, by ranged reads
    `writer`   `write_hfile`: the bytes of a file of sorted entries

In: a function that reads byte ranges, or sorted entries. Out: Arrow arrays of keys and values, or
the bytes of a file.
Not here: what a value means (format/metadata_table), which HFiles are read and how entries merge
(metadata_table/entries).
"""

from hoodoo.format.hfile.entries import Entries
from hoodoo.format.hfile.layout import HUDI_1_1, PORTABLE, Dialect, HFileCodec
from hoodoo.format.hfile.reader import HFileReader
from hoodoo.format.hfile.writer import write_hfile

__all__ = [
    "HUDI_1_1",
    "PORTABLE",
    "Dialect",
    "Entries",
    "HFileCodec",
    "HFileReader",
    "write_hfile",
]
