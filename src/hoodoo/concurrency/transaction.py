"""Transactions: the only maker of `Txn`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hoodoo.concurrency.locks import held
from hoodoo.table.ref import TableRef
from hoodoo.timeline.txn import Txn


@contextmanager
def transaction(ref: TableRef, purpose: str) -> Iterator[Txn]:
    """A transaction on a table: its lock held, its head and its timeline as they are then.

    Order: lock taken; head and timeline read, an unfinished decision finished; the caller's work;
    lock given back.
    Crash: the lock stays until its lease or session ends.
    """
    with held(ref, purpose) as lock:
        yield Txn.load(ref.env, ref.properties.timeline, lock)
