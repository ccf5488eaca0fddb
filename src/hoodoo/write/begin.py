"""Beginning a write: refuse what cannot be written, then take an instant."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.concurrency.transaction import transaction
from hoodoo.config.table import CDC_ENABLED, TIMESTAMP_TYPE
from hoodoo.errors import Unsupported
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action, Instant
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.plan import RequestedReplaceMetadata
from hoodoo.model.table import TableType
from hoodoo.storage import probe_conditions
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.timeline import Timeline

_REPLACING = frozenset(
    {
        OperationType.INSERT_OVERWRITE,
        OperationType.INSERT_OVERWRITE_TABLE,
        OperationType.DELETE_PARTITION,
    }
)


@dataclass(frozen=True)
class Begun:
    """A write that has its instant; `timeline` is what it knew of the table at that moment."""

    instant: Instant
    operation: OperationType
    timeline: Timeline

    @property
    def replaces(self) -> bool:
        return self.operation in _REPLACING


def begin(ref: TableRef, operation: OperationType, timeline: Timeline) -> Begun:
    """Take an instant for a write planned on `timeline`.

    Order: requested file.
    Crash: a requested instant without files.
    """
    action = _action(ref, operation)
    plan = _plan(operation) if action is Action.REPLACE_COMMIT else None
    with transaction(ref.env, ref.properties.timeline) as txn:
        instant = transitions.request(txn, action, plan)
    return Begun(instant, operation, timeline)


def _plan(operation: OperationType) -> RequestedReplaceMetadata:
    """Apache Hudi names the operation only where it drops partitions."""
    named = operation is OperationType.DELETE_PARTITION
    return RequestedReplaceMetadata(operation_type=operation if named else None)


def _action(ref: TableRef, operation: OperationType) -> Action:
    if operation in _REPLACING:
        return Action.REPLACE_COMMIT
    if ref.properties.type is TableType.MERGE_ON_READ:
        return Action.DELTA_COMMIT
    return Action.COMMIT


def refuse_unwritable(ref: TableRef) -> None:
    """Fail, before anything is written, on tables whose commits we could not make whole."""
    probe_conditions(ref.env.storage)
    properties, config = ref.properties, ref.config
    if not properties.version.is_writable:
        raise Unsupported(
            f"table version {properties.version.value} can be read, not written; "
            "upgrade the table to version 9 first"
        )
    metadata = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
    if metadata:
        raise Unsupported(
            "the table has a metadata table "
            f"(hoodie.table.metadata.partitions={','.join(metadata)}), which hoodoo does not "
            "write yet: a commit that skips it would be invisible to every reader"
        )
    if not properties.merge.is_ours:
        raise Unsupported("the table merges records in a way that hoodoo does not write")
    if not properties.populates_meta_fields:
        raise Unsupported(
            "tables without meta fields (hoodie.populate.meta.fields=false) are not written"
        )
    if config.get(CDC_ENABLED):
        raise Unsupported("change data capture (hoodie.table.cdc.enabled) is not written yet")
    keys = properties.keys
    if keys.generator in (KeyGenerator.CUSTOM, KeyGenerator.OTHER):
        raise Unsupported("the table's key generator is not supported for writing")
    if keys.generator is KeyGenerator.TIMESTAMP and not config.sets(TIMESTAMP_TYPE):
        raise Unsupported(f"a timestamp-based table needs {TIMESTAMP_TYPE.name} for writing")
    if not keys.record_fields:
        raise Unsupported("a table without record key fields is not written")
