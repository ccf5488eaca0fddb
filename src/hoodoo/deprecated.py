"""Names of version 0.1 that have changed: they work for one more version, and warn.

`CLASSES` and `FIELDS` are all there is to know; nothing else in hoodoo uses an old name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

CLASSES: Mapping[str, str] = {
    "AlreadyExists": "ObjectExists",
    "Archived": "ArchiveResult",
    "Cancelled": "PlanCancelled",
    "Cleaned": "CleanResult",
    "Fate": "RecoveryAction",
    "LeaseLost": "LockLost",
    "NotFound": "ObjectNotFound",
    "Outcome": "ServiceOutcome",
    "Recovered": "RecoverResult",
    "Restored": "RestoreResult",
    "RolledBack": "RollbackResult",
    "Swept": "SweepResult",
    "Unsupported": "UnsupportedFeature",
    "Upgraded": "UpgradeResult",
    "Upkeep": "ServiceReport",
    "Verdict": "RecoveryVerdict",
}
"""Old names of errors and results, each with the name of today."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "ArchiveResult": {"finished": "finished_earlier"},
    "CleanResult": {"earliest": "earliest_retained_commit"},
    "Finding": {"what": "problem", "why": "cause"},
    "IndexResult": {"was_done": "completed_by_other"},
    "LockLost": {"is_taken_back": "was_withdrawn"},
    "PlanReport": {"cancels": "recent_cancels"},
    "RecoverResult": {"left": "left_pending"},
    "ServiceResult": {"adopted": "reused_items", "was_done": "completed_by_other"},
    "SnapshotCleaned": {"moment": "as_of", "oldest": "oldest_readable_instant"},
    "TableProperties": {"timeline": "timeline_paths"},
    "WriteConflict": {"others": "conflicting_instants"},
}
"""Old fields of errors and results, by class, each with the field of today."""


def find_by_old_name(module: str, name: str) -> Any:
    """Return what a module has under the name of today; `AttributeError` where there is none."""
    new = CLASSES.get(name)
    if new is None or not hasattr(sys.modules[module], new):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    _warn(f"{module}.{name}", new, callers=2)  # the module's own __getattr__, then the user
    return getattr(sys.modules[module], new)


def with_old_fields(cls: type[T]) -> type[T]:
    """Give a class its old fields, which can be read only."""
    for old, new in FIELDS[cls.__name__].items():
        setattr(cls, old, _read_as(cls.__name__, old, new))
    return cls


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of a call that has another name by now."""
    _warn(old, new, callers=2)


def _read_as(owner: str, old: str, new: str) -> property:
    def read(self: object) -> object:
        _warn(f"{owner}.{old}", new, callers=1)
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`.")


def _warn(old: str, new: str, *, callers: int) -> None:
    warnings.warn(
        f"{old} is called {new} now; the old name is gone in the next version",
        DeprecationWarning,
        stacklevel=2 + callers,
    )
