"""An index plan that another engine laid is that engine's to run: we leave it as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.hostile import new_table, rows
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app
from hoodoo.errors import HoodooError
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import IndexPartitionInfo
from hoodoo.model.plans import IndexPlan

INDEX = "bloom_filters"
ASKING = {"hoodie.metadata.index.bloom.filter.enable": "true"}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan as Apache Hudi makes it, of an index up to the latest commit of a table."""
    (commit,) = new_table(tmp_path / "table").timeline()
    info = IndexPartitionInfo(
        metadata_partition_path=INDEX, index_upto_instant=commit.requested_time
    )
    later = commit.completion_time
    path = tmp_path / f"table/.hoodie/timeline/{later}.indexing.requested"
    path.write_bytes(codec.encode(IndexPlan(index_partition_infos=(info,))))
    return path


def upsert_that_asks_for_the_index(place: Path, instant: str) -> None:
    hoodoo.open_table(str(place), ASKING).upsert(rows(1, "la", start=50))


def create_the_index(place: Path, instant: str) -> None:
    hoodoo.open_table(str(place)).create_index(INDEX)


def run_the_plan(place: Path, instant: str) -> None:
    hoodoo.open_table(str(place)).run_index(instant)


def run_upkeep(place: Path, instant: str) -> None:
    CliRunner().invoke(app, ["upkeep", str(place)])


@pytest.mark.parametrize(
    "operation",
    [upsert_that_asks_for_the_index, create_the_index, run_the_plan, run_upkeep],
)
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.8: an index plan of another engine is begun, and then that engine cannot run it",
)
def test_an_index_plan_of_another_engine_is_left(
    plan: Path, operation: Callable[[Path, str], None]
) -> None:
    place, instant = plan.parents[2], plan.name.partition(".")[0]
    with suppress(HoodooError):
        operation(place, instant)
    files = [file.name for file in plan.parent.glob(f"{instant}*")]
    assert files == [plan.name]
