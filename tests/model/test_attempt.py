"""What is left of a plan that was cancelled names the instant that went first."""

from __future__ import annotations

import pytest

from hoodoo.format import json_files
from hoodoo.model.coordination import AbortedPlan, CancelRequest
from hoodoo.model.instant import InstantTime

WRITE = InstantTime("20260101000000001")


def record(reason: str, **fields: InstantTime) -> AbortedPlan:
    plan, rollback = InstantTime("20260101000000000"), InstantTime("20260101000000002")
    return AbortedPlan(plan, "clustering", rollback, reason, "", **fields)


def test_a_request_of_a_write_names_it() -> None:
    request = CancelRequest.give_way("someone", WRITE)
    assert request.cancelled_by == WRITE
    assert json_files.decode(json_files.encode(request), CancelRequest) == request


def test_the_field_tells_and_not_the_words() -> None:
    assert record("of old", cancelled_by=WRITE).find_winner() == WRITE


@pytest.mark.parametrize(
    ("reason", "winner"),
    [(f"{WRITE} goes first", WRITE), ("by hand", None), ("the boss goes first", None), ("", None)],
)
def test_records_of_older_releases_tell_by_their_reason(reason: str, winner: str | None) -> None:
    text = (
        f'{{"instant": "1", "action": "clustering", "rollback": "2", "reason": "{reason}",'
        ' "plan": ""}'
    )
    assert json_files.decode(text.encode(), AbortedPlan).find_winner() == winner


def test_requests_of_older_releases_are_read() -> None:
    request = json_files.decode(b'{"by": "someone", "reason": "by hand"}', CancelRequest)
    assert request == CancelRequest("someone", "by hand")
