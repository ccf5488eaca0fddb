"""What the operations do beyond the rows: files, stats, duplicates, sizes, pending plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import WriteConflict
from hoodoo.format.parquet.base_file import open_parquet, read_footer
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import ClusteringGroup, ClusteringPlan, RequestedReplaceMetadata, SliceInfo
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path, read_commit

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("v", pa.string())])


def rows(ids: list[int], v: str = "x", ts: int = 1) -> pa.Table:
    return pa.table([ids, [ts] * len(ids), [v] * len(ids)], schema=SCHEMA)


def make(path: Path, kind: str = "cow", **options: Any) -> hoodoo.Table:
    named = {f"hoodie.{key.replace('__', '.')}": value for key, value in options.items()}
    return hoodoo.create_table(
        str(path / "t"),
        schema=SCHEMA,
        record_key="id",
        ordering="ts",
        table_type=kind,
        options=named,
    )


def ids(table: hoodoo.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_inserts_keep_duplicates_wherever_the_rows_land(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.insert(rows([1, 1, 2]))
    table.insert(rows([2, 3, 3]))
    assert ids(table) == [1, 1, 2, 2, 3, 3]
    assert len(take_snapshot(open_ref(table.uri)).slices()) == 1, "into the small file"
    table.upsert(rows([1, 3], "y"))
    assert ids(table) == [1, 2, 2, 3], "an upsert leaves one row of each of its keys"


def test_inserts_keep_one_row_per_key_when_asked(tmp_path: Path) -> None:
    table = make(tmp_path, combine__before__insert=True)
    table.insert(rows([1, 1, 2]))
    assert ids(table) == [1, 2]


def test_stats_of_a_commit(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = table.insert(rows([1, 2, 3]))
    assert (first.stats.inserted, first.stats.files) == (3, 1)
    second = table.upsert(rows([3, 4], ts=2))
    assert (second.stats.inserted, second.stats.updated) == (1, 1)
    third = table.delete([1, 9])
    assert third.stats.deleted == 1
    assert {"prepare", "begin", "write", "finalize", "commit"} <= set(third.timings)
    ref = open_ref(table.uri)
    found = ref.load_timeline().find(third.instant)
    assert found is not None
    commit = read_commit(ref.env, ref.properties.timeline_paths, found)
    (stat,) = [stat for _, stat in commit.stats()]
    assert (stat.num_writes, stat.num_deletes, stat.num_update_writes) == (3, 1, 0)
    assert stat.prev_commit == second.instant
    assert stat.prev_base_file is not None
    assert second.instant in stat.prev_base_file
    assert commit.operation == "DELETE"


def test_new_files_roll_over_by_measured_size(tmp_path: Path) -> None:
    table = make(tmp_path, parquet__max__file__size=200_000, parquet__block__size=100_000)
    chance = [f"{n * 2654435761 % 2**32:x}" * 4 for n in range(60_000)]
    many = pa.table([range(60_000), [1] * 60_000, chance], schema=SCHEMA)
    table.bulk_insert(many)
    slices = take_snapshot(open_ref(table.uri)).slices()
    assert len(slices) > 3
    assert all(s.size_bytes < 400_000 for s in slices), [s.size_bytes for s in slices]
    assert ids(table) == list(range(60_000))


def test_footers_tell_keys(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(rows([5, 10, 7]))
    ref = open_ref(table.uri)
    base = take_snapshot(ref).slices()[0].base
    assert base is not None
    with ref.env.storage.open_read(base.path) as source:
        footer = read_footer(open_parquet(source).metadata)
    assert (footer.min_key, footer.max_key) == ("10", "7")
    assert footer.bloom is not None
    assert footer.bloom.might_contain(pa.array(["5", "10", "7"])).all()
    assert not footer.bloom.might_contain(pa.array(["6", "8"])).any()
    assert footer.avro_schema is not None
    assert "_hoodie_commit_time" in footer.avro_schema


def test_an_emptied_file_group_keeps_a_file_without_rows(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(rows([1, 2]))
    table.delete([1, 2])
    assert table.to_arrow().num_rows == 0
    assert len(take_snapshot(open_ref(table.uri)).slices()) == 1
    table.upsert(rows([2], "back"))
    assert table.to_arrow()["v"].to_pylist() == ["back"]


def test_a_late_row_after_a_delete_is_a_new_row(tmp_path: Path) -> None:
    # In a log it would be weighed against the deleted base row, and lose.
    table = make(tmp_path, "mor")
    table.insert(rows([1], "old", ts=5))
    table.delete([1])
    table.upsert(rows([1], "late", ts=2))
    assert table.to_arrow()["v"].to_pylist() == ["late"]


def test_deletes_of_what_is_deleted_write_nothing(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows([1, 2]))
    assert table.delete([1]).stats.files == 1
    assert table.delete([1]).stats.files == 0


@pytest.mark.parametrize(
    "index", [{}, {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}]
)
def test_overwrite_with_nothing_but_rows_marked_as_deleted_empties_the_partition(
    tmp_path: Path, index: dict[str, str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by="p", options=index
    )
    table.insert(pa.table([[1, 2], ["x", "y"], [False, False]], schema=schema))
    table.insert_overwrite(pa.table([[3], ["x"], [True]], schema=schema))
    assert table.to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite", "insert"])
def test_groups_of_a_pending_clustering_are_left_alone(tmp_path: Path, operation: str) -> None:
    table = make(tmp_path)
    table.insert(rows([1, 2]))
    ref = open_ref(table.uri)
    group = take_snapshot(ref).slices()[0].group
    piece = SliceInfo(file_id=group.file_id, partition_path=group.partition)
    plan = RequestedReplaceMetadata(
        operation_type="CLUSTER",
        clustering_plan=ClusteringPlan(input_groups=(ClusteringGroup(slices=(piece,)),)),
    )
    now = ref.load_timeline().newest_time
    assert now is not None
    instant = Instant(InstantTime(str(int(now) + 1)), Action.CLUSTERING, State.REQUESTED)
    ref.env.storage.create(instant_path(ref.properties.timeline_paths, instant), codec.encode(plan))
    before = len(ref.load_timeline())
    with pytest.raises(WriteConflict, match="clustering"):
        getattr(table, operation)(rows([1, 3]))
    assert len(ref.load_timeline()) == before
    table.bulk_insert(rows([3]))
    assert ids(table) == [1, 2, 3]


def test_a_write_that_was_overtaken_is_not_published(tmp_path: Path) -> None:
    from hoodoo.model.commit import OperationType
    from hoodoo.runtime.engine import LocalEngine
    from hoodoo.write import operations

    table = make(tmp_path)
    table.insert(rows([1]))

    class Overtaken(LocalEngine):
        """Another writer commits while this one's handles run."""

        def map(self, task: Any, items: Any, **given: Any) -> Any:
            if "run_handle" in getattr(task, "__name__", ""):
                hoodoo.open_table(table.uri, late).upsert(rows([1], "other", ts=2))
            return super().map(task, items)

    late = {"hoodie.write.concurrency.early.conflict.detection.enable": False}
    mine, engine = rows([1], "mine", ts=3), Overtaken(threads=1)
    with pytest.raises(WriteConflict, match="Nothing of it is visible"):
        operations.write(open_ref(table.uri), OperationType.UPSERT, mine, engine)
    assert table.to_arrow()["v"].to_pylist() == ["other"]
