"""Rows of one schema made rows of another: files older or newer than the schema to read with,
and rows to write into a table that has its own ideas.

Columns and struct fields match by name. What `conform` accepts is what Avro resolves plus what
Parquet files leave out (logical types of old writers, zones of INT96 timestamps); what `evolve`
accepts into a table is stricter: nothing that a table holds, or gets, may lose precision.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.errors import SchemaMismatch
from hoodoo.format.arrow_types import normalise, normalise_type

# Avro's promotions. Those to float and double may round, as they do in every other reader.
# Whole numbers also become texts: Apache Hudi retypes the column of time-based partitions so.
_PROMOTIONS = {
    pa.int32(): (
        *(pa.int64(), pa.float32(), pa.float64()),
        *(pa.date32(), pa.time32("ms"), pa.string()),
    ),
    pa.int64(): (pa.float32(), pa.float64(), pa.time64("us"), pa.string()),
    pa.float32(): (pa.float64(),),
    pa.string(): (pa.binary(),),
    pa.binary(): (pa.string(),),
}

# Types that a table column may grow into: each value stays exactly what it was.
_GROWTH = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of `table` with the columns, order and types of `schema`.

    Columns that `table` lacks are null, those that `schema` lacks are left out. Columns that
    fit already are not copied. Raises `SchemaMismatch` where a type or a value does not fit.
    """
    if table.schema.equals(schema):
        return table
    columns = [_conform_column(table, field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def evolve(table_schema: pa.Schema, incoming: pa.Schema) -> pa.Schema:
    """The table's schema once rows of `incoming` are written; `conform` the rows to it.

    New columns come last and are nullable, columns missing from `incoming` stay, a type grows
    where it must and can. Everything else raises `SchemaMismatch`.
    """
    present = [field for field in incoming if not pt.is_null(field.type)]
    null_columns = [field.name for field in incoming if pt.is_null(field.type)]
    for name in null_columns:
        if name not in table_schema.names:
            raise SchemaMismatch(f"column {name}: all its values are null, so it has no type")
    fields = _evolve_fields(
        list(table_schema), list(normalise(pa.schema(present))), null_columns, ""
    )
    return pa.schema(fields)


def _conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    positions = table.schema.get_all_field_indices(field.name)
    if len(positions) > 1:
        raise SchemaMismatch(f"column {field.name} occurs {len(positions)} times")
    if not positions:
        if not field.nullable:
            raise SchemaMismatch(f"column {field.name}: missing, and must not be null")
        return pa.nulls(table.num_rows, field.type)
    column = table.column(positions[0])
    if column.null_count and not field.nullable:
        raise SchemaMismatch(f"column {field.name}: {column.null_count} nulls, and must have none")
    if column.type.equals(field.type):
        return column
    _check(column.type, field.type, field.name)
    options = pc.CastOptions(field.type, allow_float_truncate=True)
    try:
        return column.cast(options=options)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"column {field.name}: {column.type} does not fit {field.type}: {error}"
        ) from None


def _check(source: pa.DataType, target: pa.DataType, path: str) -> None:
    """Raises `SchemaMismatch` unless values of `source` may be read as `target`."""
    if source.equals(target) or pt.is_null(source):
        return
    if pt.is_struct(target) and pt.is_struct(source):
        for field in target:
            positions = source.get_all_field_indices(field.name)
            if len(positions) == 1:
                _check(source.field(positions[0]).type, field.type, f"{path}.{field.name}")
            elif positions or not field.nullable:
                raise _mismatch(source, target, path)
    elif pt.is_map(target) and pt.is_map(source):
        _check(source.key_type, target.key_type, f"{path}{{}}")
        _check(source.item_type, target.item_type, f"{path}{{}}")
    elif pt.is_list(target) and _is_list(source):
        _check(source.value_type, target.value_type, f"{path}[]")
    elif not _promotes(source, target):
        raise _mismatch(source, target, path)


def _promotes(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_timestamp(target):
        # Old writers left the annotation out (plain INT64) or wrote INT96, which has no zone.
        return source == pa.int64() or (
            pt.is_timestamp(source) and (source.tz is None or target.tz is not None)
        )
    try:
        plain = normalise_type(source, "")
    except SchemaMismatch:
        return False
    return plain == target or target in _PROMOTIONS.get(plain, ()) or _holds(target, plain)


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether each value of `narrow` is, exactly, one of `wide` (both are table types)."""
    if wide == narrow or (narrow, wide) in _GROWTH:
        return True
    if pt.is_decimal(wide) and pt.is_decimal(narrow):
        whole_digits = wide.precision - wide.scale, narrow.precision - narrow.scale
        return bool(wide.scale >= narrow.scale and whole_digits[0] >= whole_digits[1])
    if pt.is_timestamp(wide) and pt.is_timestamp(narrow):
        return bool(wide.unit == "us" and (wide.tz is None) == (narrow.tz is None))
    pair = (narrow, wide)
    return pair in ((pa.time32("ms"), pa.time64("us")), (pa.string(), pa.binary()))


def _may_grow(old: pa.DataType, new: pa.DataType) -> bool:
    if pt.is_decimal(old) and pt.is_decimal(new):
        return bool(old.scale == new.scale and new.precision >= old.precision)
    return (old, new) in _GROWTH


def _evolve_fields(
    old: list[pa.Field], new: list[pa.Field], null_columns: list[str], path: str
) -> list[pa.Field]:
    incoming = {field.name: field for field in new}
    spelling = {field.name.lower(): field.name for field in old}
    for name in incoming:
        table_name = spelling.get(name.lower(), name)
        if table_name != name:
            raise SchemaMismatch(f"column {path}{name}: the table spells it {path}{table_name}")
    fields = []
    for field in old:
        if field.name in incoming:
            type_ = _evolve_type(field.type, incoming.pop(field.name).type, path + field.name)
            fields.append(field.with_type(type_))
        elif field.nullable or field.name in null_columns:
            fields.append(field)
        else:
            raise SchemaMismatch(f"column {path}{field.name}: missing, and must not be null")
    new_fields = [field if not old else field.with_nullable(True) for field in incoming.values()]
    return fields + new_fields


def _evolve_type(old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
    if pt.is_struct(old) and pt.is_struct(new):
        return pa.struct(_evolve_fields(list(old), list(new), [], f"{path}."))
    if pt.is_list(old) and pt.is_list(new):
        element = _evolve_type(old.value_type, new.value_type, f"{path}[]")
        return pa.list_(old.value_field.with_type(element))
    if pt.is_map(old) and pt.is_map(new):
        value = _evolve_type(old.item_type, new.item_type, f"{path}{{}}")
        return pa.map_(old.key_type, old.item_field.with_type(value))
    if _holds(old, new):
        return old
    if _may_grow(old, new):
        return new
    raise _mismatch(new, old, path)


def _is_list(type_: pa.DataType) -> bool:
    # Not the view types: Arrow (26) casts those to lists with wrong contents.
    return bool(pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_))


def _mismatch(source: pa.DataType, target: pa.DataType, path: str) -> SchemaMismatch:
    return SchemaMismatch(f"column {path}: {source} does not fit {target}")
