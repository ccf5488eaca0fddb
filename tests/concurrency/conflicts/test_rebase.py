"""Which schema a commit carries when others committed meanwhile."""

from __future__ import annotations

import json
from itertools import permutations

import pyarrow as pa
import pytest
from support.built_table import at

from hoodoo.concurrency.conflicts.rules import ConcurrentInstant, InstantKind, PublishingInstant
from hoodoo.concurrency.conflicts.schema_rebase import rebase_schema
from hoodoo.errors import WriteConflict
from hoodoo.format.schema import avro_from_arrow
from hoodoo.model.instant import Action, Instant, State

MINE = PublishingInstant(at(50), InstantKind.INGESTION, {})


def schema(**columns: pa.DataType) -> str:
    return avro_from_arrow(pa.schema(list(columns.items())), "t")


def theirs(text: str | None, requested: int = 40, ended: int = 60) -> ConcurrentInstant:
    instant = Instant(at(requested), Action.COMMIT, State.COMPLETED, at(ended))
    return ConcurrentInstant(instant, InstantKind.INGESTION, "UPSERT", schema=text)


OLD = schema(id=pa.string(), n=pa.int32())
PLUS_A = schema(id=pa.string(), n=pa.int32(), a=pa.string())
PLUS_B = schema(id=pa.string(), n=pa.int32(), b=pa.string())
PLUS_AB = schema(id=pa.string(), n=pa.int32(), a=pa.string(), b=pa.string())
A_FIRST = schema(a=pa.string(), n=pa.int32(), id=pa.string())
GROWN = schema(id=pa.string(), n=pa.int64())
FEWER = schema(id=pa.string())
OTHER_TYPE = schema(id=pa.string(), n=pa.string())


def rebased(mine: str, *others: ConcurrentInstant, planned_on: str | None = OLD) -> str:
    found = {
        rebase_schema(MINE, mine, order, planned_on=planned_on) for order in permutations(others)
    }
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("requested", [40, 60])
@pytest.mark.parametrize(
    ("mine", "after", "published"),
    [
        (OLD, OLD, OLD),
        (OLD, PLUS_A, PLUS_A),  # mine would turn it back
        (OLD, GROWN, GROWN),
        (OLD, A_FIRST, A_FIRST),
        (PLUS_A, PLUS_A, PLUS_A),
        (PLUS_A, PLUS_AB, PLUS_AB),
    ],
)
def test_commit_carries_the_current_table_schema(requested, mine, after, published) -> None:
    assert rebased(mine, theirs(after, requested)) == published


@pytest.mark.parametrize("requested", [40, 60])
@pytest.mark.parametrize(
    ("mine", "after"),
    [
        (PLUS_A, PLUS_B),
        (PLUS_AB, PLUS_B),
        (GROWN, PLUS_A),
        (OLD, FEWER),  # columns of mine would be unreadable
        (OLD, OTHER_TYPE),
    ],
)
def test_schema_changes_that_do_not_fit_conflict(requested, mine, after) -> None:
    other = theirs(after, requested)
    with pytest.raises(WriteConflict, match="changed the table's schema in another way") as info:
        rebased(mine, other)
    assert (info.value.instant, info.value.conflicting_instants) == (at(50), (other.time,))


def test_schema_change_conflicts_with_write_requested_later() -> None:
    assert rebased(PLUS_A, theirs(OLD, requested=40)) == PLUS_A
    with pytest.raises(WriteConflict, match="requested later, and its schema lacks"):
        rebased(PLUS_A, theirs(OLD, requested=60))
    assert rebased(PLUS_A, theirs(OLD, requested=55), theirs(PLUS_A, requested=60)) == PLUS_A


def test_last_schema_change_counts() -> None:
    others = theirs(PLUS_A, 30, 61), theirs(PLUS_AB, 31, 62), theirs(None, 70, 71)
    assert rebased(OLD, *others) == PLUS_AB
    assert rebased(OLD, theirs(PLUS_A, 31, 61), theirs(PLUS_AB, 30, 62)) == PLUS_AB
    assert rebased(PLUS_A) == PLUS_A


def test_first_schema_of_a_table_is_kept_or_conflicts() -> None:
    assert rebased(OLD, planned_on=None) == OLD
    assert rebased(OLD, theirs(OLD), planned_on=None) == OLD
    assert rebased(OLD, theirs(PLUS_A), planned_on=None) == PLUS_A
    with pytest.raises(WriteConflict):
        rebased(PLUS_A, theirs(OLD), planned_on=None)


def test_equal_schemas_with_different_text_do_not_conflict() -> None:
    """Apache Hudi names records in its own way, and spaces mean nothing."""
    tree = json.loads(OLD)
    foreign = json.dumps({**tree, "name": "row", "namespace": "x", "doc": "rows"}, indent=2)
    assert rebased(PLUS_A, theirs(foreign)) == PLUS_A
    assert rebased(OLD, theirs(foreign)) == OLD
