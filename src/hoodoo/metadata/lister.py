"""`MetadataLister`: a table's partitions and data files, as the metadata table's `files` has them.

Whether a file counts is decided by its instant, as for files of a directory. A small listing is
read as a whole; of a large one, only the partitions that are wanted.
"""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.errors import FormatError
from hoodoo.format.metadata.file_lists import explode
from hoodoo.format.metadata.keys import ALL_PARTITIONS, ROOT, partition_name, partition_path
from hoodoo.metadata.entries import find_entries, read_entries
from hoodoo.metadata.metadata_table import MetadataTable, PartitionFiles
from hoodoo.model.files import DataFile, parse_data_files
from hoodoo.model.lister import Keep, everything
from hoodoo.model.metadata_table import FILES
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join

_READ_WHOLE_BYTES = 2 << 20  # in about the time of a second request


class MetadataLister:
    """Lists by the metadata table; `FormatError` or `NotFound` where it is damaged."""

    def __init__(
        self, table: MetadataTable, *, is_partitioned: bool, engine: Engine | None = None
    ) -> None:
        self._table = table
        self._is_partitioned = is_partitioned
        self._engine = engine

    def files(self, keep: Keep = everything) -> list[DataFile]:
        """Data files of the partitions that `keep` wants."""
        source = self._table.load_partition(FILES)
        if not self._is_partitioned:
            lists = self._find(source, [ALL_PARTITIONS, ROOT])
        elif keep is everything or _size(source) <= _READ_WHOLE_BYTES:
            lists = read_entries(self._table, source, engine=self._engine)
        else:
            lists = self._find(source, [ALL_PARTITIONS])
            names = [partition_name(path) for path in _partitions(lists)]
            wanted = [name for name in names if _is_wanted(name, keep)]
            lists = pa.concat_tables([lists, self._find(source, wanted)])
        known = {partition_name(path) for path in _partitions(lists)}
        wanted = sorted(
            name for name in known if not self._is_partitioned or _is_wanted(name, keep)
        )
        return _data_files(lists.filter(pc.is_in(lists["key"], pa.array(wanted, pa.string()))))

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted; one without a name if the table has none."""
        if not self._is_partitioned:
            return [PartitionPath("")]
        source = self._table.load_partition(FILES)
        return sorted(_partitions(self._find(source, [ALL_PARTITIONS])))

    def _find(self, source: PartitionFiles, keys: list[str]) -> pa.Table:
        wanted = pa.array(keys, pa.string())
        return find_entries(self._table, source, wanted, engine=self._engine)


def _size(source: PartitionFiles) -> int:
    return sum(one.size_bytes for one in source.slices)


def _is_wanted(name: str, keep: Keep) -> bool:
    return keep(PartitionPath(partition_path(name)), whole=True)


def _partitions(lists: pa.Table) -> list[PartitionPath]:
    named = lists.filter(pc.equal(lists["key"], ALL_PARTITIONS))
    if not named.num_rows:
        place = join(METADATA_TABLE, FILES)
        raise FormatError(f"there is no entry {ALL_PARTITIONS} in it", source=place)
    live = explode(named)
    live = live.filter(pc.invert(live["is_deleted"]))
    return [PartitionPath(partition_path(name)) for name in live["name"].to_pylist()]


def _data_files(lists: pa.Table) -> list[DataFile]:
    """The live files of these entries."""
    listed = explode(lists)
    if pc.any(listed["is_deleted"]).as_py():
        listed = listed.filter(pc.invert(listed["is_deleted"]))
    keys = listed["key"].combine_chunks().dictionary_encode()
    paths = [PartitionPath(partition_path(key)) for key in keys.dictionary.to_pylist()]
    names = _texts(listed["name"])
    sizes: list[int] = listed["size_bytes"].to_numpy().tolist()
    files = parse_data_files(map(paths.__getitem__, keys.indices.to_numpy().tolist()), names, sizes)
    if None not in files:
        return cast(list[DataFile], files)
    for name, file in zip(names, files, strict=True):
        if file is None and name.endswith(".parquet"):
            place = join(METADATA_TABLE, FILES)
            raise FormatError(f"{name!r} is not the name of a data file", source=place)
    return [file for file in files if file is not None]


def _texts(names: pa.ChunkedArray) -> list[str]:
    """The names; Python cuts a long text more quickly than it takes texts from Arrow."""
    array = names.combine_chunks()
    whole = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    texts: list[str] = pc.binary_join(whole, "\n")[0].as_py().split("\n")
    return texts if len(texts) == len(array) else names.to_pylist()
