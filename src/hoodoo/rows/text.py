"""Text must be UTF-8: Arrow takes any bytes for text until someone reads them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import InputError


def refuse_invalid_text(rows: pa.Table) -> None:
    """Fail if a text column, or text inside a column, is not UTF-8."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not _has_text(column.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"column {name!r} has text that is not UTF-8 ({reason}); "
                "repair it, or write a binary column"
            ) from None


def _has_text(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        return _has_text(kind.value_type)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return True
    return any(_has_text(kind.field(number).type) for number in range(kind.num_fields))
