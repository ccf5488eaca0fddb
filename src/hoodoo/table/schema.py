"""The schema of a table as of a timeline."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.errors import FormatError, UnsupportedFeature, add_error_source
from hoodoo.format.schema import arrow_from_avro, with_meta_fields, without_meta_fields
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_commit

_SCHEMA_ON_READ = "latest_schema"


def schema_json(ref: TableRef, timeline: Timeline) -> tuple[str, str] | None:
    """The table's Avro schema without meta fields, and the file that says so; None if none does.

    It is that of the newest commit that changed rows, else the one given at creation.
    """
    layout = ref.properties.timeline_paths
    for instant in reversed(timeline.commits.instants):
        commit = read_commit(ref.env, layout, instant)
        _refuse_schema_on_read(commit)
        with add_error_source(paths.PROPERTIES):
            _refuse_other_partitioning(ref, commit)
        if not commit.operation.is_table_service and commit.schema_json:
            return commit.schema_json, instant_path(layout, instant)
    if ref.properties.create_schema:
        return ref.properties.create_schema, paths.PROPERTIES
    return None


def resolve_schema(ref: TableRef, timeline: Timeline) -> pa.Schema | None:
    """The Arrow schema of rows as read: meta columns first, where the table has them."""
    text_and_source = schema_json(ref, timeline)
    if text_and_source is None:
        return None
    text, source = text_and_source
    with add_error_source(source):
        return adapt_to_reader(ref, arrow_from_avro(text))


def adapt_to_reader(ref: TableRef, schema: pa.Schema) -> pa.Schema:
    """The schema with the meta columns that this table's rows have."""
    if ref.properties.populates_meta_fields:
        return with_meta_fields(schema)
    return without_meta_fields(schema)


def _refuse_other_partitioning(ref: TableRef, commit: CommitMetadata) -> None:
    """Properties that lost a line would make us look for files in the wrong directories."""
    is_partitioned = ref.properties.keys.is_partitioned
    for partition, stat in commit.stats():
        if bool(partition) != is_partitioned:
            says = "partitioned" if is_partitioned else "not partitioned"
            raise FormatError(f"says that the table is {says}, but a commit wrote {stat.path}")
        return


def _refuse_schema_on_read(commit: CommitMetadata) -> None:
    if commit.extra_metadata.get(_SCHEMA_ON_READ):
        raise UnsupportedFeature(
            "the table uses schema evolution on read (hoodie.schema.on.read.enable), where columns "
            "are renamed or moved by id; hoodoo matches columns by name and would misread it"
        )
