"""A table as a notebook shows it: what it is, how many rows if that is cheap, and its columns."""

from __future__ import annotations

from html import escape

from hoodoo.format.schema import without_meta_fields
from hoodoo.read import scan
from hoodoo.read.scan import select_slices
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.ref import TableRef

_CHEAP_FILES = 16
"""Footers of so many files are read to tell the number of rows."""
_COLUMNS = 50


def describe_html(ref: TableRef) -> str:
    """A few lines of HTML; whatever the table holds is escaped."""
    engine, properties = LocalEngine(), ref.properties
    selection = select_slices(ref, columns=scan.key_columns(ref), engine=engine)
    slices = selection.slices
    facts = [properties.type.value.lower().replace("_", "-"), f"version {properties.version.value}"]
    if len(slices) <= _CHEAP_FILES and not any(slice_.logs for slice_ in slices):
        facts.append(_count(scan.count_rows(selection, engine), "row"))
    facts.append(_count(len(slices), "file group"))
    rules = [
        ("key", properties.keys.record_fields),
        ("partitions", properties.keys.partition_fields),
    ]
    rules.append(("ordering", properties.merge.ordering_fields))
    facts += [f"{name}: {', '.join(fields)}" for name, fields in rules if fields]
    schema = without_meta_fields(selection.snapshot.schema)
    lines = [
        f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>"
        for field in list(schema)[:_COLUMNS]
    ]
    if len(schema) > _COLUMNS:
        lines.append(f"<tr><td>and {len(schema) - _COLUMNS} more</td><td></td></tr>")
    return (
        f"<div><b>{escape(properties.name)}</b> <code>{escape(ref.uri)}</code><br>"
        f"{escape('; '.join(facts))}"
        f"<table><tr><th>column</th><th>type</th></tr>{''.join(lines)}</table></div>"
    )


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
