"""Committing on top of writes that one did not know of: what becomes of the table's schema. Pure.

Every commit carries the table's schema, and the newest one (by requested time) is the table's. So
a write that was planned before another one changed the schema must carry the changed one, or it
would turn the change back.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    Conflict,
    PublishingInstant,
    make_conflict_error,
)
from hoodoo.errors import SchemaMismatch, WriteConflict
from hoodoo.format.schema import arrow_from_avro
from hoodoo.rows.conform import evolve


def rebase_schema(
    publishing: PublishingInstant,
    schema: str,
    concurrent_instants: Sequence[ConcurrentInstant],
    *,
    planned_on: str | None,
) -> str:
    """The schema to publish on top of others.

    All schemas are Avro JSON; `schema` is mine, `planned_on` the table's when mine was planned.
    Theirs is taken if rows of mine fit it as they are. Raises `WriteConflict` if they do not, and
    if a write that counts as newer would turn back what mine changes.
    """
    theirs = [(other, other.schema) for other in concurrent_instants if other.schema is not None]
    schema_changes = [each for each in theirs if not _is_same(each[1], planned_on)]
    if schema_changes:
        last, their_schema = max(
            schema_changes, key=lambda each: each[0].instant.completion_or_requested_time
        )
        if not _fits_unchanged(their_schema, schema):
            raise _make_conflict_error(
                publishing, last, "it changed the table's schema in another way"
            )
        schema = their_schema
    if theirs:
        newest, their_schema = max(theirs, key=lambda each: each[0].time)
        if newest.time > publishing.time and not _is_same(their_schema, schema):
            raise _make_conflict_error(
                publishing, newest, "it was requested later, and its schema lacks changes"
            )
    return schema


def _is_same(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return one == other
    return bool(_to_arrow(one).equals(_to_arrow(other)))


def _fits_unchanged(table: str, rows: str) -> bool:
    """Whether rows of one schema fit a table of another without changing it."""
    present = _to_arrow(table)
    try:
        return bool(evolve(present, _to_arrow(rows)).equals(present))
    except SchemaMismatch:
        return False


def _to_arrow(schema: str) -> pa.Schema:
    # What Avro says beyond this (names of records, comments) changes no row.
    return arrow_from_avro(schema)


def _make_conflict_error(
    publishing: PublishingInstant, concurrent: ConcurrentInstant, reason: str
) -> WriteConflict:
    return make_conflict_error(publishing, [Conflict(concurrent, reason)])
