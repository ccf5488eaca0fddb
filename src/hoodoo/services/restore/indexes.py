"""What becomes of the metadata table and its indexes when commits are taken back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodoo.concurrency.transactions.gate import change_properties
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import HoodooError
from hoodoo.metadata_table.delta_commits import take_back_delta_commit
from hoodoo.metadata_table.recorder import partitions_to_update
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import PARTITION_STATS, RECORD_INDEX
from hoodoo.model.paths import METADATA_TABLE, join
from hoodoo.runtime.engine import Engine
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.services")

_NARROW_INDEXES = frozenset({PARTITION_STATS, RECORD_INDEX})
"""The indexes that a restore drops, and builds again."""


def drop_narrow_indexes(ref: TableRef) -> tuple[str, ...]:
    """Take indexes out of use that cannot follow a restore; `rebuild_indexes` builds them again.

    What comes back may lie beyond the statistics of its partition, and its keys elsewhere.
    Order: the table's properties, by a decision of the head; then the files.
    Crash: files that nobody reads; whoever builds the index again removes them.
    """
    if not _NARROW_INDEXES & partitions_to_update(ref.reopen().properties):
        return ()
    dropped_partitions: tuple[str, ...] = ()
    with transaction(ref, "restore") as txn:

        def changes() -> dict[str, str | None]:
            nonlocal dropped_partitions
            present = ref.reopen().properties
            dropped_partitions = tuple(sorted(_NARROW_INDEXES & partitions_to_update(present)))
            names = (
                (METADATA_PARTITIONS.name, present.metadata_partitions),
                (METADATA_PARTITIONS_INFLIGHT.name, present.metadata_partitions_inflight),
            )
            return {key: ",".join(p for p in own if p not in _NARROW_INDEXES) for key, own in names}

        change_properties(txn, changes)
        for partition in dropped_partitions:
            for entry in list(ref.env.storage.list(join(METADATA_TABLE, partition))):
                txn.fence.ensure_publish_window()
                delete_surely(ref.env, entry.path)
    log.warning(
        "index_dropped index=%s reason=restore: built again once the restore is completed; if that "
        "fails, run `hoodoo index create`",
        ",".join(dropped_partitions),
    )
    return dropped_partitions


def rebuild_indexes(ref: TableRef, engine: Engine, dropped_partitions: Sequence[str]) -> None:
    """Build what a restore dropped. It is completed, so failing here fails nothing else.

    Order: that of `add_metadata_partitions`.
    """
    if not dropped_partitions:
        return
    try:
        add_metadata_partitions(ref, engine, *dropped_partitions)
    except HoodooError as error:
        log.warning(
            "index_not_rebuilt index=%s error=%s: run `hoodoo index create`",
            ",".join(dropped_partitions),
            error,
        )


def take_back_in_metadata_table(txn: Txn, ref: TableRef, time: InstantTime) -> None:
    """Undo what a commit wrote to the metadata table, unless that was compacted.

    Then the restore itself makes the listing right.
    Needs: a Txn, and that the commit is pending again.
    """
    if partitions_to_update(ref.reopen().properties):
        take_back_delta_commit(txn, load_metadata_properties(ref.env).timeline_paths, time)
