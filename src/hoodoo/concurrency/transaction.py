"""Transactions: the only maker of `Txn`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hoodoo.concurrency.decided import load_decided
from hoodoo.concurrency.locks import held
from hoodoo.table.ref import TableRef
from hoodoo.timeline.txn import Fence, Txn


@contextmanager
def transaction(ref: TableRef, purpose: str) -> Iterator[Txn]:
    """A transaction on a table: its lock held, its head and its timeline as they are then.

    Order: lock taken; head and timeline read, an unfinished decision finished; the caller's work;
    lock given back.
    Crash: the lock stays until its lease or session ends.
    """
    with held(ref, purpose) as lock:
        yield load_txn(ref, lock)


def load_txn(ref: TableRef, lock: Fence) -> Txn:
    """The transaction of whoever holds this lock."""
    where = ref.properties.timeline
    look = partial(load_decided, ref.env, where)
    return Txn(ref.env, where, lock, *look(), look)
