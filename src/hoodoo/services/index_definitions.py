"""What an index is about, said where all who write it look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import pyarrow as pa

from hoodoo.errors import InputError, NotFound, naming
from hoodoo.format.index_definitions import define_column_stats, define_record_index
from hoodoo.format.metadata.value_types import indexed_columns
from hoodoo.metadata.recorder import (
    DEFINITIONS_PATH_KEY,
    INDEX_DEFINITIONS,
    load_indexed_columns,
)
from hoodoo.model.metadata_table import COLUMN_STATS, RECORD_INDEX
from hoodoo.services.index_entries import load_schema
from hoodoo.table.ref import TableRef
from hoodoo.timeline.timeline import Timeline


def define_index(
    ref: TableRef, timeline: Timeline, partition: str, columns: Sequence[str] | None = None
) -> str | None:
    """Say what an index is about, for whoever writes it later; where that is said, if it is.

    `columns` are those that get statistics, if they are named.
    """
    if partition not in (COLUMN_STATS, RECORD_INDEX):
        return None
    env, path = ref.env, ref.properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    data: bytes | None = None
    with suppress(NotFound):
        data = env.storage.read(path)
    with naming(path):
        if partition == RECORD_INDEX:
            defined = define_record_index(data)
        else:
            schema = load_schema(ref, timeline)
            types = _choose_columns(ref, schema, columns)
            defined = define_column_stats(data, tuple(types))
        env.storage.put(path, defined)
    return path


def _choose_columns(
    ref: TableRef, schema: pa.Schema, columns: Sequence[str] | None
) -> Collection[str]:
    if columns is None:
        return load_indexed_columns(ref.env, ref.config, ref.properties, schema).types
    types = indexed_columns(schema, configured=tuple(columns))
    if unfit := [name for name in columns if name not in types]:
        raise InputError(f"no statistics of {', '.join(unfit)}: no such column, or of no such type")
    return types
