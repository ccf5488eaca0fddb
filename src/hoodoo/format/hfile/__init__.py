"""HFiles: sorted keys and values of metadata tables (bytes <-> values)."""

from hoodoo.format.hfile.entries import Entries
from hoodoo.format.hfile.layout import HUDI_1_1, PORTABLE, Codec, Dialect
from hoodoo.format.hfile.reader import HFileReader
from hoodoo.format.hfile.writer import write_hfile

__all__ = [
    "HUDI_1_1",
    "PORTABLE",
    "Codec",
    "Dialect",
    "Entries",
    "HFileReader",
    "write_hfile",
]
