"""What users ask for when they change rows by a predicate: delete, update, merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodoo.errors import InputError, SchemaMismatch
from hoodoo.format.arrow_types import normalise_type
from hoodoo.format.schema import META_FIELDS
from hoodoo.model.keys import KeyRule
from hoodoo.rows.incoming import rows_to_arrow
from hoodoo.runtime.engine import is_of_spark

Values = Mapping[str, Any]
"""New values of columns: SQL text, an expression of the engine, or a plain value."""


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Delete the rows for which a condition is true."""

    where: Any


@dataclass(frozen=True, slots=True)
class UpdateWhere:
    """Give columns new values in the rows for which a condition is true; None: in all."""

    values: Values
    where: Any = None


@dataclass(frozen=True, slots=True)
class Clause:
    """What to do with rows of a merge, if a condition is true; `values` None: as in the source."""

    condition: Any = None
    values: Values | None = None


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Bring the rows of a source together with those of the table that have equal `on` columns."""

    source: Any
    on: tuple[str, ...]
    update: Clause | None
    delete: Clause | None
    insert: Clause | None


Change = DeleteWhere | UpdateWhere | MergeRequest


def expressions_of(change: Change) -> list[Any]:
    """The conditions and values of a change; those that are not there are None."""
    match change:
        case DeleteWhere():
            return [change.where]
        case UpdateWhere():
            return [change.where, *change.values.values()]
        case MergeRequest():
            clauses = [c for c in (change.update, change.delete, change.insert) if c is not None]
            values = [value for clause in clauses for value in (clause.values or {}).values()]
            return [*(clause.condition for clause in clauses), *values]


def build_update(values: object, where: Any) -> UpdateWhere:
    """An update as it is called for."""
    if not isinstance(values, Mapping) or not values:
        raise InputError("update takes set={column: value}, such as set={'fare': 'fare * 2'}")
    return UpdateWhere(dict(values), where)


def build_merge(
    source: Any, on: str | Sequence[str], update: object, delete: object, insert: object
) -> MergeRequest:
    """A merge as it is called for; rows that are not Spark's are read here, once."""
    names = (on,) if isinstance(on, str) else tuple(on)
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("merge takes on='column', or a list of columns")
    merge = MergeRequest(
        source if is_of_spark(source) else _read_source(source),
        names,
        _clause("when_matched_update", update),
        _clause("when_matched_delete", delete, takes_values=False),
        _clause("when_not_matched_insert", insert),
    )
    if merge.update is merge.delete is merge.insert is None:
        raise InputError(
            "merge has nothing to do: say when_matched_update, when_matched_delete or "
            "when_not_matched_insert"
        )
    return merge


def _read_source(source: object) -> pa.Table:
    """The rows in types of tables, where there are such; dicts in the types of their values."""
    rows = rows_to_arrow(source, None)
    for at, field in enumerate(rows.schema):
        with suppress(SchemaMismatch):
            type_ = normalise_type(field.type, field.name)
            rows = rows.set_column(at, field.with_type(type_), rows.column(at).cast(type_))
    return rows


def _clause(name: str, argument: object, *, takes_values: bool = True) -> Clause | None:
    if argument is None or argument is False:
        return None
    if argument is True:
        return Clause()
    if isinstance(argument, Mapping):
        if takes_values and argument:
            return Clause(values=dict(argument))
    elif not isinstance(argument, int | float | list | tuple):
        return Clause(condition=argument)
    kinds = "True, a condition or {column: value}" if takes_values else "True or a condition"
    raise InputError(f"{name} is {kinds}, not {argument!r}")


def check_update(values: Values, schema: pa.Schema, keys: KeyRule) -> None:
    """Fail if an update names unknown columns, or a column of the record key."""
    check_columns(values, schema)
    key_fields = [name for name in values if name in {f.split(".")[0] for f in keys.record_fields}]
    if key_fields:
        raise InputError(
            f"an update cannot change the record key ({', '.join(key_fields)}): "
            "delete the row and insert it with its new key"
        )


def check_columns(values: Values, schema: pa.Schema) -> None:
    """Fail if values are for columns that the table does not have, or that hoodoo writes itself."""
    for name in values:
        if name in META_FIELDS or name not in schema.names:
            names = [column for column in schema.names if column not in META_FIELDS]
            raise InputError(f"no column {name!r} to set; there are {names}")


def check_on(on: Sequence[str], table: Sequence[str], source: Sequence[str]) -> None:
    """Fail if a column to merge on is not in both."""
    for name in on:
        for columns, whose in ((table, "table"), (source, "source")):
            if name not in columns:
                raise InputError(f"merge on {name!r}: the {whose} has only {list(columns)}")


def adds_new_keys(merge: MergeRequest, keys: KeyRule, *, is_global: bool) -> bool:
    """Whether rows that match nothing cannot have a key of the table's, as long as none is null."""
    identity = {*keys.record_fields, *(() if is_global else keys.partition_fields)}
    as_in_source = merge.insert is not None and merge.insert.values is None
    return as_in_source and identity.issuperset(merge.on)


def ambiguous(on: Sequence[str], example: Mapping[str, Any]) -> InputError:
    """Two rows of a source want to change one row."""
    return InputError(
        f"several rows of the source match one row of the table (the one with {dict(example)!r}): "
        f"the source must have each value of {', '.join(on)} once"
    )
