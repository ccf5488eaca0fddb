"""The batch guard: no batch of an application is committed twice."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.model.commit_notes import Batch
from hoodoo.table.ref import TableRef
from hoodoo.timeline.batches import (
    Batches,
    encode_batches,
    load_batches,
    load_new_batches,
)
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn


class BatchCommitted(Exception):
    """The batch of this write is committed already: nothing more is to be written."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(f"{batch} is committed already")
        self.batch = batch


class BatchGuard:
    """Watches the batch of one write, if it is one; each commit of others is looked at once."""

    def __init__(self, ref: TableRef) -> None:
        """What can be read without the lock is read here. Raises `BatchCommitted`."""
        self._ref = ref
        self._batch = ref.notes.batch
        self._seen = Timeline()
        self._known: Batches = {}
        if self._batch is not None:
            self._seen = ref.load_timeline()
            self._known = load_batches(ref.env, ref.properties.timeline, self._seen)
            self._refuse(self._batch, self._known)

    def refuse_committed(self, txn: Txn) -> Mapping[str, str]:
        """The extra metadata that tells of this batch. Raises `BatchCommitted`.

        Needs: a Txn. Whoever commits the same batch at once is before it in this timeline, or
        moves the head, so that this is asked again.
        """
        if self._batch is None:
            return {}
        known = load_new_batches(txn.env, txn.paths, txn.timeline, self._seen, self._known)
        self._seen, self._known = txn.timeline, known
        self._refuse(self._batch, known)
        return encode_batches({**known, self._batch.app: self._batch.number})

    def _refuse(self, batch: Batch, known: Batches) -> None:
        if batch.number <= known.get(batch.app, -1):
            raise BatchCommitted(batch)
