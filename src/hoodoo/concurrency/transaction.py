"""Transactions: the only maker of `Txn`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hoodoo.concurrency.locks import held
from hoodoo.table.ref import TableRef
from hoodoo.timeline.txn import Txn


@contextmanager
def transaction(ref: TableRef, purpose: str) -> Iterator[Txn]:
    """A transaction on a table: its lock held, and its timeline as it is then.

    Order: lock taken; timeline listed; the caller's work; lock given back.
    Crash: the lock stays until its lease or session ends.
    """
    with held(ref, purpose) as lock:
        yield Txn(ref.env, ref.properties.timeline, ref.load_timeline(), lock)
