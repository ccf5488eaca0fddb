"""Tables of Spark's own catalog: `CREATE TABLE trips USING hoodoo LOCATION '...'`.

Spark tells a Python source the location once, when the table is made and its columns are asked for.
A query gets a source without options, and hands it the columns of the catalog. So the options
travel with the first of these columns, in its metadata. Writes do not use them: Spark hands a
writer the metadata of the rows' own columns, which may have come from another table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from hoodoo.errors import InputError

_METADATA = "hoodoo.options"
_PROVIDER = "provider"
_OPTION = "option."
_OWN_PREFIXES = ("hoodie.", "hoodoo.")


def options_of_new_table(
    options: Mapping[str, str], about_rows: frozenset[str]
) -> dict[str, str] | None:
    """The options of a table that Spark's catalog makes, without its notes; None if it makes none.

    Metadata of columns goes wherever rows go, into files too, so that nothing else is kept in it:
    options of a store's client may be secrets.
    """
    if _PROVIDER not in options:
        return None
    stated = {k.removeprefix(_OPTION): v for k, v in options.items() if k.startswith(_OPTION)}
    stated.pop("path", None)  # the catalog's own is absolute
    for name in stated:
        if name not in about_rows and not name.startswith(_OWN_PREFIXES):
            raise InputError(
                f"option {name!r} cannot be kept in Spark's catalog: set it in the environment of "
                "Spark's Python processes, or read by a temporary view"
            )
    if "path" in options:
        stated["path"] = options["path"]
    return stated


def attach_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Columns for the catalog, the first of which carries the options."""
    first, *others = schema.fields
    metadata = {**first.metadata, _METADATA: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def attached_options(schema: StructType) -> dict[str, str]:
    """The options that columns of the catalog carry; none if they are not of the catalog."""
    for field in schema:
        if _METADATA in field.metadata:
            options: dict[str, str] = json.loads(field.metadata[_METADATA])
            return options
    return {}
