"""What calls of a table return: `hoodoo.CleanResult` and the others come from here."""

from __future__ import annotations

from hoodoo.inspect.conflicts import ClashReport, FileGroupReport, InProgressReport, OverlapReport
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

__all__ = [
    "ArchiveResult",
    "ClashReport",
    "CleanResult",
    "ColumnReport",
    "CommitReport",
    "CommitResult",
    "FileGroupReport",
    "FileReport",
    "FilesReport",
    "Finding",
    "GroupReport",
    "InProgressReport",
    "IndexReport",
    "IndexResult",
    "InstantReport",
    "LockReport",
    "OverlapReport",
    "PlanReport",
    "RecoverResult",
    "RecoveryAction",
    "RecoveryVerdict",
    "Repair",
    "RestoreResult",
    "RollbackResult",
    "Savepoint",
    "SchemaReport",
    "ServiceOutcome",
    "ServiceReport",
    "ServiceResult",
    "SliceReport",
    "SweepResult",
    "TableReport",
    "UpgradeResult",
    "WriteTotals",
]
