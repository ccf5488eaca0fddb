"""hoodoo: lakehouse tables in Apache Hudi's format, from Python.

import hoodoo

table = hoodoo.create_table("/data/trips", schema=schema, record_key="trip_id")
table.upsert(rows)
table.to_arrow(filter="city = 'sf'")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoodoo.errors import HoodooError

if TYPE_CHECKING:
    from hoodoo.api import (
        Table,
        configure,
        create_table,
        open_table,
        register,
        upgrade_table,
    )
    from hoodoo.streaming import stream_to

__version__ = "0.1.0"
__all__ = [
    "HoodooError",
    "Table",
    "configure",
    "create_table",
    "open_table",
    "register",
    "stream_to",
    "upgrade_table",
]


def __getattr__(name: str) -> Any:
    # The interface is imported when it is first used: `import hoodoo` itself stays cheap.
    if name == "stream_to":
        from hoodoo.streaming import stream_to

        return stream_to
    if name in __all__:
        from hoodoo import api

        return getattr(api, name)
    raise AttributeError(f"module 'hoodoo' has no attribute {name!r}")
