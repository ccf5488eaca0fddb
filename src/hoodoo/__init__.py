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
    LockLost,
    LockTimeout,
    NoSuchTable,
    NotCancellable,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PlanCancelled,
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
    UnsupportedFeature,
    UnsupportedValue,
    UnsupportedVersion,
    UnusablePath,
    WriteConflict,
    WriterAlive,
)
from hoodoo.model.progress import Progress

if TYPE_CHECKING:
    from hoodoo.api.create import create_table, open_table, upgrade_table
    from hoodoo.api.spark import configure, register, stream_to
    from hoodoo.api.table import Table
    from hoodoo.cli.output.progress import show_progress
    from hoodoo.inspect.conflicts import (
        ClashReport,
        FileGroupReport,
        InProgressReport,
        OverlapReport,
    )
    from hoodoo.inspect.doctor import Finding
    from hoodoo.inspect.files import FileReport, FilesReport, GroupReport, SliceReport
    from hoodoo.inspect.history import CommitReport
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.inspect.locks import LockReport
    from hoodoo.inspect.plans import PlanReport
    from hoodoo.inspect.table import ColumnReport, SchemaReport, TableReport
    from hoodoo.inspect.timeline import InstantReport
    from hoodoo.recovery.recover import RecoverResult, RecoveryAction, RecoveryVerdict
    from hoodoo.recovery.rollback import RollbackResult
    from hoodoo.recovery.sweep import SweepResult
    from hoodoo.services.archive.archive import ArchiveResult
    from hoodoo.services.clean.clean import CleanResult
    from hoodoo.services.indexing.build import IndexResult
    from hoodoo.services.plans.execute import ServiceResult
    from hoodoo.services.repairs import Repair
    from hoodoo.services.restore.restore import RestoreResult
    from hoodoo.services.savepoints import Savepoint
    from hoodoo.services.upgrade.upgrade import UpgradeResult
    from hoodoo.services.upkeep import ServiceOutcome, ServiceReport
    from hoodoo.write.commit.publish import CommitResult, WriteTotals

__version__ = "0.1.0"
__all__ = [
    "AlreadyCommitted",
    "ArchiveResult",
    "CancelNotRequested",
    "ClashReport",
    "CleanResult",
    "ColumnReport",
    "CommitFailed",
    "CommitReport",
    "CommitResult",
    "CommitUnknown",
    "ConfigError",
    "CorruptBlock",
    "EarlyConflict",
    "EngineFailed",
    "FileGroupReport",
    "FileReport",
    "FilesReport",
    "Finding",
    "FormatError",
    "GroupReport",
    "HeadMoved",
    "HeartbeatLost",
    "HoodooError",
    "IllegalTransition",
    "InProgressReport",
    "IndexReport",
    "IndexResult",
    "InputError",
    "InstantReport",
    "LockLost",
    "LockReport",
    "LockTimeout",
    "NoSuchTable",
    "NotCancellable",
    "ObjectExists",
    "ObjectNotFound",
    "OutcomeUnknown",
    "OverlapReport",
    "PlanCancelled",
    "PlanInProgress",
    "PlanNotExecutable",
    "PlanReport",
    "PreconditionFailed",
    "Progress",
    "RecoverResult",
    "RecoveryAction",
    "RecoveryVerdict",
    "Repair",
    "RestoreResult",
    "RollbackResult",
    "Savepoint",
    "SchemaMismatch",
    "SchemaReport",
    "ServiceOutcome",
    "ServiceReport",
    "ServiceResult",
    "SliceReport",
    "SnapshotCleaned",
    "StorageError",
    "SweepResult",
    "Table",
    "TableChanged",
    "TableExists",
    "TableReport",
    "TaskStopped",
    "TimelineError",
    "UnsupportedFeature",
    "UnsupportedValue",
    "UnsupportedVersion",
    "UnusablePath",
    "UpgradeResult",
    "WriteConflict",
    "WriteTotals",
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
        from hoodoo.cli.output.progress import show_progress

        return show_progress
    if name == "stream_to":
        from hoodoo.api.spark import stream_to

        return stream_to
    if name in __all__:
        from hoodoo import api

        if hasattr(api, name):
            return getattr(api, name)
        from hoodoo.api import results

        return getattr(results, name)
    from hoodoo.deprecated import find_by_old_name

    return find_by_old_name(__name__, name)
