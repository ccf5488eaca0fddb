"""A write stage that runs again while the metadata table is written changes nothing there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from support.carriers import KEYS_IN_SPARK
from support.indexed import GLOBAL, KINDS, arrow, create, read_both
from support.record_indexed import INDEXED, check_index

from hoodoo.api.table import Table
from hoodoo.errors import CommitFailed
from hoodoo.runtime.env import Env
from hoodoo.spark.write import stage
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit
from hoodoo_testing.simulator.checks.metadata_table import check_metadata_table

pytestmark = pytest.mark.spark

OLD = [(f"k{n}", "xyz"[n % 3], 1, n) for n in range(30)]
NEW = [(f"k{n}", "xyz"[(n + 1) % 3], 2, n) for n in range(20, 50)]
"""Ten keys move to another partition, twenty are new."""


def files_of(results: list[Any]) -> list[str]:
    return sorted(stat.path for result in results for stat in result.stats)


@KINDS
@pytest.mark.parametrize("fails", [True, False], ids=["late tasks fail", "late tasks tell again"])
def test_commit_and_record_index_agree(
    spark: SparkSession, tmp_path: Path, kind: str, fails: bool
) -> None:
    options = {
        **GLOBAL,
        **INDEXED,
        **KEYS_IN_SPARK,
        "hoodie.write.fail.on.finalize.marker": str(fails).lower(),
    }
    table = create(tmp_path / "t", kind, options, "ts")
    table.insert(arrow(OLD))
    stages: list[DataFrame] = []
    first: list[Any] = []
    again: list[Any] = []
    collect = stage._collect_results

    def keep(session: SparkSession, written: DataFrame, *rest: Any) -> Any:
        stages.append(written)
        first.extend(collect(session, written, *rest))
        return first

    def run_again(verb: str, path: str) -> None:
        if verb == "create" and "/metadata/" in path and path.endswith("deltacommit.inflight"):
            again.extend(pickle.loads(row["result"]) for row in stages[0].collect())

    storage = TracedStorage(open_storage(table.uri), before=run_again)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_collect_results", keep)
        patch.setattr(Broadcast, "destroy", lambda shared: None)  # the stage needs it again
        writer = Table(open_ref(table.uri, options, Env(storage)))
        done = writer.upsert(spark.createDataFrame(arrow(NEW)))

    assert again, "the stage has run again"
    if fails:
        assert all(isinstance(result.error, CommitFailed) for result in again)
    else:
        assert files_of(again) == files_of(first)
    rows = {row[0]: row for row in (*OLD, *NEW)}
    assert read_both(table) == sorted(rows.values())
    check_index(table, set(rows))
    ref = open_ref(table.uri)
    check_metadata_table(ref.env.storage)
    instant = ref.load_timeline().find(done.instant)
    assert instant is not None
    commit = read_commit(ref.env, ref.properties.timeline_paths, instant)
    named = {stat.path for _, stat in commit.stats()}
    made = {
        path.relative_to(tmp_path / "t").as_posix()
        for path in (tmp_path / "t").glob("p=*/*")
        if done.instant in path.name
    }
    assert made == named, "files that the commit names, and no others"
