"""Transactions: the only maker of `Txn`.

There is no table lock yet: one writer at a time. The lock comes with the commit protocol, and
this is where it will be taken; callers already hold a `Txn` wherever they will need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hoodoo.env import Env
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.load import load_timeline
from hoodoo.timeline.txn import Txn


@contextmanager
def transaction(env: Env, paths: TimelinePaths) -> Iterator[Txn]:
    """A transaction on a table, with the timeline as it is inside it."""
    yield Txn(env, paths, load_timeline(env, paths))
