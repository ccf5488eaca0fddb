"""What a table is, for people: its rules, its state in numbers, its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.errors import add_error_source
from hoodoo.inspect.files import FileTotals, totals_of
from hoodoo.inspect.timeline import InstantReport, report_instant
from hoodoo.read.file_listing import visible_groups
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a table is and how much of it there is."""

    name: str
    database: str | None
    uri: str
    type: str
    version: int
    timeline_layout: int
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    key_generator: str
    hive_style_partitions: bool
    ordering: tuple[str, ...]
    merge_mode: str
    has_meta_fields: bool
    indexes: tuple[str, ...]
    indexes_being_built: tuple[str, ...]
    instants: Mapping[str, int]
    latest_commit: InstantReport | None
    files: FileTotals
    rows: int | None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column, or a part of one: fields of a struct, the element of a list, a map's value."""

    name: str
    type: str
    nullable: bool
    comment: str | None
    parts: tuple[ColumnReport, ...]


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The schema without meta columns, and the same as Avro JSON, if there is any column."""

    columns: tuple[ColumnReport, ...]
    avro: str | None


def report_table(ref: TableRef, *, rows: bool = False) -> TableReport:
    """The table in facts and numbers; `rows` counts its rows, which reads files."""
    properties = ref.properties
    timeline = ref.load_timeline()
    latest = timeline.latest_commit
    return TableReport(
        name=properties.name,
        database=properties.database,
        uri=ref.uri,
        type=properties.type.value,
        version=properties.version.value,
        timeline_layout=properties.timeline_paths.layout,
        record_key=properties.keys.record_fields,
        partition_fields=properties.keys.partition_fields,
        key_generator=properties.keys.generator.value,
        hive_style_partitions=properties.keys.hive_style,
        ordering=properties.merge.ordering_fields,
        merge_mode=properties.merge.mode.value,
        has_meta_fields=properties.populates_meta_fields,
        indexes=properties.metadata_partitions,
        indexes_being_built=properties.metadata_partitions_inflight,
        instants=dict(Counter(instant.state.value for instant in timeline)),
        latest_commit=report_instant(ref, latest) if latest is not None else None,
        files=totals_of(ref, visible_groups(ref, timeline)),
        rows=_count_rows(ref) if rows else None,
        properties=dict(sorted(properties.raw.items())),
    )


def report_schema(ref: TableRef) -> SchemaReport:
    """The present schema, without meta columns."""
    from hoodoo.format.schema import arrow_from_avro, avro_from_arrow, without_meta_fields
    from hoodoo.table.schema import schema_json

    timeline = ref.load_timeline()
    text_and_source = schema_json(ref, timeline)
    avro: str | None
    if text_and_source is not None:
        text, source = text_and_source
        with add_error_source(source):
            avro = without_meta_fields(text)
            schema = arrow_from_avro(avro)
    else:  # neither commit nor property tells: then the data files do
        from hoodoo.read.snapshot import take_snapshot

        schema = without_meta_fields(take_snapshot(ref, timeline=timeline).schema)
        avro = avro_from_arrow(schema, ref.properties.name) if schema.names else None
    return SchemaReport(tuple(_column(field) for field in schema), avro)


def _count_rows(ref: TableRef) -> int:
    from hoodoo.read.scan import count_all_rows

    return count_all_rows(ref)


def _column(field: pa.Field) -> ColumnReport:
    import pyarrow.types as kinds

    kind, inner = str(field.type), []
    if kinds.is_struct(field.type):
        kind, inner = "struct", list(field.type)
    elif kinds.is_list(field.type):
        kind, inner = "list", [field.type.value_field]
    elif kinds.is_map(field.type):
        kind, inner = "map", [field.type.item_field]
    comment = (field.metadata or {}).get(b"comment", b"").decode("utf-8", "replace")
    parts = tuple(_column(part) for part in inner)
    return ColumnReport(field.name, kind, field.nullable, comment or None, parts)
