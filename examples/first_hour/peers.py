"""What needs packages that hoodoo does not bring: some pages, and another reader of tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import page_blocks
import pyarrow as pa
from checks import check, check_equal, rows_by_key, say

import hoodoo

EARLIER = "../hour/**/.hoodie/hoodie.properties"
"""Tables that the other scenes have made, in the folder beside this one."""


def run(place: Path, pages: list[Path], make_session: Callable[[], tuple[Any, Path]]) -> None:
    """Pages that were left out before run now; another engine reads the tables of the hour."""
    later = [page for page in pages if page_blocks.named_packages(page)]
    page_blocks.run(place, later, make_session)
    if find_spec("hudi") is None:
        say("the hudi wheel is not installed: it reads nothing")
        return
    found = (path.parent.parent for path in sorted(Path.cwd().glob(EARLIER)))
    tables = [table for table in found if table.name != "metadata"]
    check(bool(tables), "no tables of earlier scenes were found")
    compared = [table for table in tables if can_be_read(table)]
    for table in compared:
        compare(table)
    say(f"the hudi wheel reads the same rows in {len(compared)} of {len(tables)} tables")


def can_be_read(place: Path) -> bool:
    """Whether that engine knows the types: it has no times without a zone, as pandas has them."""
    types = hoodoo.open_table(place).schema.types
    return not any(pa.types.is_timestamp(one) and one.tz is None for one in types)


def compare(place: Path) -> None:
    """Another engine reads what hoodoo reads."""
    from hudi import HudiTableBuilder

    table = hoodoo.open_table(place)
    (key,) = table.properties["hoodie.table.recordkey.fields"].split(",")
    names = table.schema.names
    batches = HudiTableBuilder.from_base_uri(str(place.resolve())).build().read()
    theirs = pa.Table.from_batches(batches).select(names)
    ours = table.to_arrow(columns=names)
    what = f"rows that the hudi wheel reads in {place.resolve().name}"
    check_equal(what, rows_by_key(theirs.to_pylist(), key), rows_by_key(ours.to_pylist(), key))
