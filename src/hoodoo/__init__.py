"""hoodoo: lakehouse tables in Apache Hudi's format, from Python.

import hoodoo

table = hoodoo.create_table("/data/trips", schema=schema, record_key="trip_id")
table.upsert(rows)
table.to_arrow(filter="city = 'sf'")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoodoo.errors import (
    AlreadyCommitted,
    AlreadyExists,
    Cancelled,
    CancelNotRequested,
    CommitFailed,
    CommitUnknown,
    ConfigError,
    CorruptBlock,
    EarlyConflict,
    EngineFailed,
    FormatError,
    HeadMoved,
    HeartbeatLost,
    HoodooError,
    IllegalTransition,
    InputError,
    LeaseLost,
    LockTimeout,
    NoSuchTable,
    NotCancellable,
    NotFound,
    OutcomeUnknown,
    PlanInProgress,
    PlanNotExecutable,
    PreconditionFailed,
    SchemaMismatch,
    SnapshotCleaned,
    StorageError,
    TableChanged,
    TableExists,
    TaskStopped,
    TimelineError,
    Unsupported,
    UnsupportedValue,
    UnsupportedVersion,
    UnusablePath,
    WriteConflict,
    WriterAlive,
)
from hoodoo.model.progress import Progress

if TYPE_CHECKING:
    from hoodoo.api import (
        Table,
        configure,
        create_table,
        open_table,
        register,
        upgrade_table,
    )
    from hoodoo.cli.progress import show_progress
    from hoodoo.streaming import stream_to

__version__ = "0.1.0"
__all__ = [
    "AlreadyCommitted",
    "AlreadyExists",
    "CancelNotRequested",
    "Cancelled",
    "CommitFailed",
    "CommitUnknown",
    "ConfigError",
    "CorruptBlock",
    "EarlyConflict",
    "EngineFailed",
    "FormatError",
    "HeadMoved",
    "HeartbeatLost",
    "HoodooError",
    "IllegalTransition",
    "InputError",
    "LeaseLost",
    "LockTimeout",
    "NoSuchTable",
    "NotCancellable",
    "NotFound",
    "OutcomeUnknown",
    "PlanInProgress",
    "PlanNotExecutable",
    "PreconditionFailed",
    "Progress",
    "SchemaMismatch",
    "SnapshotCleaned",
    "StorageError",
    "Table",
    "TableChanged",
    "TableExists",
    "TaskStopped",
    "TimelineError",
    "Unsupported",
    "UnsupportedValue",
    "UnsupportedVersion",
    "UnusablePath",
    "WriteConflict",
    "WriterAlive",
    "configure",
    "create_table",
    "open_table",
    "register",
    "show_progress",
    "stream_to",
    "upgrade_table",
]


def __getattr__(name: str) -> Any:
    # The interface is imported when it is first used: `import hoodoo` itself stays cheap.
    if name == "show_progress":
        from hoodoo.cli.progress import show_progress

        return show_progress
    if name == "stream_to":
        from hoodoo.streaming import stream_to

        return stream_to
    if name in __all__:
        from hoodoo import api

        return getattr(api, name)
    raise AttributeError(f"module 'hoodoo' has no attribute {name!r}")
