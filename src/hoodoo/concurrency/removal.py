"""Taking a file off the timeline by a decision: a moot rollback, a commit, a savepoint.

Like every decision it is carried out by whoever comes next, if whoever took it dies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hoodoo.errors import HeadMoved
from hoodoo.model.decision import DecisionKind
from hoodoo.model.instant import Instant, State
from hoodoo.timeline.decisions import carry_out
from hoodoo.timeline.head import prepare_decision, take_head
from hoodoo.timeline.load import instant_path
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.txn import Txn

_WITHIN_S = 10.0


def withdraw(txn: Txn, rollback: Instant, owner: str, check: Callable[[], None]) -> None:
    """Take a rollback that must not be carried out off the timeline.

    Needs: a Txn. `check` fails if it is to be carried out all the same.
    Order: inflight file deleted; head; requested file deleted.
    Crash: before the head it is a requested rollback again; after it whoever comes next goes on.
    """

    def reason() -> str:
        check()
        delete_surely(txn.env, instant_path(txn.paths, replace(rollback, state=State.INFLIGHT)))
        return "it is moot"

    remove(txn, replace(rollback, state=State.REQUESTED), owner, reason)


def take_back(txn: Txn, completed: Instant, owner: str, check: Callable[[], None]) -> None:
    """Take the completed file of an instant off the timeline: a restore, or a savepoint's end.

    Needs: a Txn; a commit was decided at least two expiries ago, so that nobody's late request can
    bring its file back. `check` fails if it is to stay all the same.
    Order: head; completed file deleted.
    Crash: before the head nothing happened; after it whoever comes next goes on.
    """

    def reason() -> str | None:
        check()
        return "it is taken back" if completed in txn.timeline.instants else None

    remove(txn, completed, owner, reason)


def remove(txn: Txn, instant: Instant, owner: str, reason: Callable[[], str | None]) -> str | None:
    """Decide that the file of an instant in this state goes, as long as there is a reason.

    Order: head and timeline read again; reason; head; file deleted.
    """
    while True:
        txn.reload()
        why = reason()
        if why is None:
            return None
        decision = prepare_decision(
            txn.env,
            txn.head,
            DecisionKind.REMOVE,
            instant.requested_time,
            instant_path(txn.paths, instant),
            b"",
            owner=owner,
            latest=instant.ended_at,
        )
        try:
            txn.head = take_head(txn.env, txn.head, decision, within_s=_WITHIN_S)
        except HeadMoved:
            continue
        carry_out(txn.env, decision)
        return why
