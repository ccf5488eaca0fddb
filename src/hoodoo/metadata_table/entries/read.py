"""Reads what a metadata table holds: all entries of a partition, some keys, or some prefixes.

The file group of a key follows from its hash. Of a file group, the base HFile is read in ranges:
its end, and the blocks that may have what is wanted; log files are read whole. Files are read on
the engine, several at a time; then each file group is merged here. Whoever reads many large file
groups hands `read_group` to an engine instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, add_error_source
from hoodoo.format.arrow_types import empty_table
from hoodoo.format.hfile import Entries, HFileReader
from hoodoo.format.log import Block, BlockType, decode_deletes, open_hfile, read_blocks, scan_blocks
from hoodoo.format.metadata_table.keys import file_group_numbers, secondary_values
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.entries.rules import EntryRule, rule_of
from hoodoo.metadata_table.table import MetadataTable, PartitionFiles
from hoodoo.model.files import BaseFile, DataFile, FileSlice, instant_of_file
from hoodoo.model.metadata_table import SECONDARY_INDEX_PREFIX
from hoodoo.model.table import TableVersion
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.runtime.env import Env

_SCHEMA = b"schema"


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries to read: those of some keys, or that begin with some prefixes, or all."""

    keys: pa.Array | None = None
    prefixes: pa.Array | None = None
    skips: bool = False
    """Whether values are known to hold nothing that looks like an entry: see `HFileReader.find`."""

    def of(self, reader: HFileReader) -> Entries:
        """The wanted entries of an HFile."""
        if self.keys is not None:
            return reader.find(self.keys, skips=self.skips)
        if self.prefixes is not None:
            return reader.find_prefixes(self.prefixes)
        return reader.read_all()

    def among(self, keys: pa.Array) -> pa.Array:
        """The wanted ones of these keys."""
        if self.keys is not None:
            return keys.filter(pc.is_in(keys, value_set=self.keys.cast(keys.type)))
        if self.prefixes is not None:
            begins = [pc.starts_with(keys, prefix) for prefix in self.prefixes.to_pylist()]
            flags = np.zeros(len(keys), bool)
            for one in begins:
                flags |= one.to_numpy(zero_copy_only=False)
            return keys.filter(pa.array(flags))
        return keys


EVERYTHING = EntryFilter()


@dataclass(frozen=True, slots=True)
class _FileRead:
    """One file to read; a log file is read whole, and decoded by whoever has the whole slice."""

    file: DataFile
    entry_filter: EntryFilter


@dataclass(frozen=True, slots=True)
class _Content:
    entries: Entries | None = None
    schema_json: str | None = None
    log: bytes = b""


def read_entries(
    table: MetadataTable, files: PartitionFiles, *, engine: Engine | None = None
) -> pa.Table:
    """All entries of a partition, merged: file group after file group, each sorted by key."""
    return _read(table, files, dict.fromkeys(range(len(files.slices)), EVERYTHING), engine)


def find_entries(
    table: MetadataTable,
    files: PartitionFiles,
    keys: pa.Array,
    *,
    engine: Engine | None = None,
) -> pa.Table:
    """The entries of these keys, as far as there are any, merged."""
    keys = pc.unique(keys)
    numbers = group_numbers(table, files, keys)
    filters = {
        number: EntryFilter(keys=keys.filter(pa.array(numbers == number)))
        for number in np.unique(numbers).tolist()
    }
    return _read(table, files, filters, engine)


def find_prefixes(
    table: MetadataTable,
    files: PartitionFiles,
    prefixes: pa.Array,
    *,
    engine: Engine | None = None,
) -> pa.Table:
    """The entries whose keys begin with any of these, merged; they may be in any file group.

    But for a secondary index: prefixes that hold its whole value are in one file group.
    """
    filters = dict.fromkeys(range(len(files.slices)), EntryFilter(prefixes=pc.unique(prefixes)))
    return _read(table, files, filters, engine)


def group_numbers(
    table: MetadataTable, files: PartitionFiles, keys: pa.Array
) -> np.typing.NDArray[np.int64]:
    """The file group of each key, by its place in `files.slices`."""
    is_secondary = files.partition.startswith(SECONDARY_INDEX_PREFIX)
    if is_secondary and table.properties.version is TableVersion.NINE:
        keys = secondary_values(keys)
    return file_group_numbers(keys, len(files.slices))


def read_group(
    table: MetadataTable, partition: str, one: FileSlice, entry_filter: EntryFilter = EVERYTHING
) -> pa.Table:
    """The merged entries of one file group, sorted by key; made for the tasks of an engine."""
    contents = [_read_file(table.env, _FileRead(file, entry_filter)) for file in _files_of(one)]
    return _merge_group(table, rule_of(partition), one, entry_filter, contents)


def _read(
    table: MetadataTable,
    files: PartitionFiles,
    filters: dict[int, EntryFilter],
    engine: Engine | None,
) -> pa.Table:
    rule = rule_of(files.partition)
    groups = [(files.slices[number], choice) for number, choice in filters.items()]
    reads = [_FileRead(file, choice) for one, choice in groups for file in _files_of(one)]
    contents = (engine or LocalEngine(1)).map(partial(_read_file, table.env), reads)
    group_tables = []
    at = 0
    for one, choice in groups:
        own = contents[at : at + len(_files_of(one))]
        at += len(own)
        group_tables.append(_merge_group(table, rule, one, choice, own))
    return pa.concat_tables(group_tables) if group_tables else empty_table(rule.schema)


def _files_of(one: FileSlice) -> tuple[DataFile, ...]:
    return one.logs if one.base is None else (one.base, *one.logs)


def _read_file(env: Env, item: _FileRead) -> _Content:
    path = item.file.path
    if not isinstance(item.file, BaseFile):
        return _Content(log=env.storage.read(path))
    with add_error_source(path):
        reader = HFileReader(
            lambda start, length: env.storage.read(path, start, length), item.file.size_bytes
        )
        schema = reader.file_info.get(_SCHEMA)
        return _Content(item.entry_filter.of(reader), None if schema is None else _text(schema))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError("the schema of its values is not UTF-8") from None


def _merge_group(
    table: MetadataTable,
    rule: EntryRule,
    one: FileSlice,
    entry_filter: EntryFilter,
    contents: Sequence[_Content],
) -> pa.Table:
    batches = [EntryBatch(empty_table(rule.schema))]
    blocks: list[Block] = []
    sources: dict[int, str] = {}  # blocks by identity: their order changes
    for file, content in zip(_files_of(one), contents, strict=True):
        if content.entries is not None:
            with add_error_source(file.path):
                batches.append(EntryBatch(_decode(rule, content.entries, content.schema_json)))
            continue
        with add_error_source(file.path):
            file_blocks = _blocks_of(table, file, content.log)
        blocks += file_blocks
        sources |= dict.fromkeys(map(id, file_blocks), file.path)
    steps: list[_Step] = []
    for block in scan_blocks(blocks, is_visible=table.counts).blocks:
        with add_error_source(sources[id(block)]):
            steps.append(_read_block(block, entry_filter, sources[id(block)]))
    batches += _decode_steps(rule, steps)
    with add_error_source(one.group.file_id):
        return rule.merge(batches)


def _blocks_of(table: MetadataTable, file: DataFile, data: bytes) -> Sequence[Block]:
    read = read_blocks(data)
    if table.properties.version.appends_to_logs:
        return read.blocks
    # Written whole, by a commit that is completed.
    if read.corrupt or not read.blocks:
        reason = read.corrupt[0].reason if read.corrupt else "it has no blocks"
        raise FormatError(f"a damaged log file: {reason}")
    if any(block.instant_time != instant_of_file(file) for block in read.blocks):
        raise FormatError("a block of another instant than the log file's")
    return read.blocks


@dataclass(frozen=True, slots=True)
class _Step:
    """What a block says: keys that are deleted, or entries that are not decoded yet."""

    source: str
    deleted_keys: pa.Array | None = None
    entries: Entries | None = None
    schema_json: str | None = None


def _read_block(block: Block, entry_filter: EntryFilter, source: str) -> _Step:
    if block.type is BlockType.DELETE:
        keys = decode_deletes(block)["record_key"].combine_chunks()
        return _Step(source, deleted_keys=entry_filter.among(keys.drop_null()))
    if block.type is not BlockType.HFILE_DATA:
        raise FormatError(f"a {block.type.name} block in a metadata table")
    return _Step(source, None, entry_filter.of(open_hfile(block)), block.schema_json)


def _decode_steps(rule: EntryRule, steps: Sequence[_Step]) -> list[EntryBatch]:
    """The steps as batches. Small blocks are decoded together: each takes a while, however small.

    If that fails, they are decoded one by one, so that the error names the file.
    """
    tables: dict[int, pa.Table] = {}
    for schema_json in dict.fromkeys(
        each.schema_json for each in steps if each.entries is not None
    ):
        own = [n for n, each in enumerate(steps) if each.schema_json == schema_json]
        parts = [(n, entries) for n in own if (entries := steps[n].entries) is not None]
        try:
            whole = _decode(rule, Entries.concat([part for _, part in parts]), schema_json)
        except FormatError:
            for number, part in parts:
                with add_error_source(steps[number].source):
                    tables[number] = _decode(rule, part, schema_json)
            continue
        at = 0
        for number, part in parts:
            tables[number] = whole.slice(at, len(part))
            at += len(part)
    return [
        EntryBatch(tables[number])
        if number in tables
        else EntryBatch(deleted_keys=step.deleted_keys)
        for number, step in enumerate(steps)
    ]


def _decode(rule: EntryRule, entries: Entries, schema_json: str | None) -> pa.Table:
    return rule.decode(entries.keys, entries.values, schema_json)
