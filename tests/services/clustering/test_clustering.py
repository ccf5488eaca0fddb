"""Clustering changes where rows are, and nothing that a reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from support.clustered import CITIES, cluster, fill, make, rows, rows_by_key, slices
from support.wheel import wheel_rows

import hoodoo
from hoodoo.errors import InputError
from hoodoo.format.parquet.base_file import open_parquet, read_footer
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action
from hoodoo.model.plans import Layout, RowOrder
from hoodoo.services.clustering.plan import read_order
from hoodoo.services.clustering.tasks import clustering_plan_of
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit, read_plan

pytestmark = pytest.mark.slow


def views(table: hoodoo.Table, instants: list[str]) -> Mapping[str, Any]:
    """All that readers may ask for."""
    seen: dict[str, Any] = {"now": rows_by_key(table.to_arrow())}
    for instant in instants:
        seen[f"as of {instant}"] = rows_by_key(table.to_arrow(as_of=instant))
        seen[f"since {instant}"] = rows_by_key(table.changes(since=instant))
    seen["since the beginning"] = rows_by_key(table.changes(since="2000-01-01"))
    return seen


ORDERS = [
    {},
    {"order_by": ["fare"]},
    {"order_by": ["note", "fare"], "layout": "linear"},
    {"order_by": ["fare", "note"], "layout": "zorder"},
    {"order_by": ["fare", "ts", "note"], "layout": "hilbert"},
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_readers_see_the_same_before_and_after(
    tmp_path: Path, kind: str, order: dict[str, Any]
) -> None:
    table = make(tmp_path, kind)
    instants = fill(table)
    before, count = views(table, instants), len(slices(table))
    cluster(table, **order)
    assert views(table, instants) == before
    after = slices(table)
    assert len(after) == len(CITIES) < count
    assert not any(slice_.logs for slice_ in after)
    theirs = wheel_rows(tmp_path / "t")
    ours = table.to_arrow().to_pylist()
    assert sorted(theirs, key=lambda row: row["id"]) == sorted(ours, key=lambda row: row["id"])
    table.upsert(rows([3, 500], ts=9))
    table.delete([60])
    expected = {**before["now"]}
    expected.pop("60")
    assert rows_by_key(table.to_arrow()).keys() == {*expected, "500"}


def base_files(table: hoodoo.Table) -> list[pa.parquet.ParquetFile]:
    storage = open_ref(table.uri).env.storage
    found = []
    for slice_ in slices(table):
        assert slice_.base is not None
        found.append(open_parquet(storage.open_read(slice_.base.path)))
    return found


def test_new_files_name_themselves_and_tell_their_keys(tmp_path: Path) -> None:
    table = make(tmp_path)
    fill(table)
    cluster(table, order_by="fare")
    for slice_, file in zip(slices(table), base_files(table), strict=True):
        found = file.read()
        assert slice_.base is not None
        assert set(found["_hoodie_file_name"].to_pylist()) == {str(slice_.base.name)}
        keys = found["_hoodie_record_key"].to_pylist()
        footer = read_footer(file.metadata)
        assert (footer.min_key, footer.max_key) == (min(keys), max(keys))
        assert footer.bloom is not None
        assert footer.bloom.might_contain(pa.array(keys)).all()


def test_rows_are_in_order_over_all_files_of_a_partition(tmp_path: Path) -> None:
    table = make(tmp_path, clustering__plan__strategy__target__file__max__bytes=50_000)
    for start in range(0, 4_000, 1_000):
        table.bulk_insert(rows(range(start, start + 1_000)))
    cluster(table, order_by=["fare", "note"])
    by_city: dict[str, list[list[tuple[Any, Any]]]] = {city: [] for city in CITIES}
    for file in base_files(table):
        found = file.read(["city", "fare", "note"]).to_pylist()
        (city,) = {row["city"] for row in found}
        by_city[city].append([(row["fare"], row["note"]) for row in found])
    for files in by_city.values():
        assert len(files) > 1
        assert max(map(len, files)) - min(map(len, files)) <= len(files)
        files.sort(key=lambda values: _nulls_last(values[0]))
        values = [value for file in files for value in file]
        assert values == sorted(values, key=_nulls_last)


def _nulls_last(values: tuple[Any, Any]) -> list[tuple[bool, Any]]:
    return [(value is None, value or 0) if value is None else (False, value) for value in values]


@pytest.mark.parametrize("layout", ["zorder", "hilbert"])
def test_files_are_narrow_in_every_column_of_a_curve(tmp_path: Path, layout: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.float64())])
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=schema,
        record_key="id",
        options={
            "hoodie.parquet.block.size": 20_000,
            "hoodie.clustering.plan.strategy.target.file.max.bytes": 400_000,
        },
    )
    rng = np.random.default_rng(5)
    for start in range(0, 60_000, 20_000):
        ids = np.arange(start, start + 20_000)
        columns = [ids, rng.integers(0, 10**6, 20_000), rng.normal(0, 1, 20_000)]
        table.bulk_insert(pa.table(columns, schema=schema))
    before = table.to_arrow(columns=["a", "b"])
    assert all(width > 0.9 for width in _widths(table, before))
    cluster(table, order_by=["a", "b"], layout=layout)
    assert all(width < 0.4 for width in _widths(table, before))
    few = table.to_arrow(filter="a < 50000 and b < 0", columns=["id"]).num_rows
    assert few == before.filter((pc.field("a") < 50_000) & (pc.field("b") < 0)).num_rows


def _widths(table: hoodoo.Table, all_rows: pa.Table) -> list[float]:
    """For each column, the mean share of all rows that lie within the bounds of a row group."""
    shares: dict[str, list[float]] = {"a": [], "b": []}
    for file in base_files(table):
        metadata = file.metadata
        for group in range(metadata.num_row_groups):
            for column in map(metadata.row_group(group).column, range(metadata.num_columns)):
                if column.path_in_schema in shares:
                    low, high = column.statistics.min, column.statistics.max
                    values = all_rows[column.path_in_schema].to_numpy()
                    within = ((values >= low) & (values <= high)).mean()
                    shares[column.path_in_schema].append(float(within))
    assert all(len(found) > 8 for found in shares.values()) or len(shares["a"]) >= 3
    return [float(np.mean(found)) for found in shares.values()]


@pytest.mark.parametrize("block_bytes", [30_000, 10_000_000])
def test_large_row_groups_are_copied_as_bytes(tmp_path: Path, block_bytes: int) -> None:
    table = make(tmp_path, parquet__compression__codec="snappy", parquet__block__size=30_000)
    table.bulk_insert(rows(range(2_000)))
    table.bulk_insert(rows(range(2_000, 4_000)))
    table.upsert(rows([1, 3_001], ts=2))
    before = rows_by_key(table.to_arrow())
    groups = sum(file.metadata.num_row_groups for file in base_files(table))
    zstd = hoodoo.open_table(table.uri, {"hoodie.parquet.block.size": block_bytes})
    cluster(zstd)
    assert rows_by_key(table.to_arrow()) == before
    assert sorted(wheel_rows(tmp_path / "t"), key=lambda row: row["id"]) == sorted(
        table.to_arrow().to_pylist(), key=lambda row: row["id"]
    )
    files = base_files(table)
    assert len(files) == len(CITIES)
    is_copied = block_bytes == 30_000
    assert (sum(file.metadata.num_row_groups for file in files) == groups) is is_copied
    for file in files:
        group = file.metadata.row_group(0)
        codecs = {
            group.column(n).path_in_schema: group.column(n).compression
            for n in range(file.metadata.num_columns)
        }
        assert codecs.pop("_hoodie_file_name") == "ZSTD"
        assert set(codecs.values()) == {"SNAPPY" if is_copied else "ZSTD"}
        keys = file.read(["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
        footer = read_footer(file.metadata)
        assert (footer.min_key, footer.max_key) == (min(keys), max(keys))
        assert footer.bloom is not None
        assert footer.bloom.might_contain(pa.array(keys)).all()
        assert not footer.bloom.might_contain(pa.array(["absent", "5000"])).any()


def test_commit_tells_what_was_replaced(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    fill(table)
    before = {slice_.group for slice_ in slices(table)}
    instant = cluster(table)
    ref = open_ref(table.uri)
    found = ref.load_timeline().find(instant)
    assert found is not None
    assert found.action.value == "replacecommit"
    commit = read_commit(ref.env, ref.properties.timeline_paths, found)
    assert commit.operation is OperationType.CLUSTER
    assert commit.replaced_file_groups() == before
    assert commit.file_groups() == {slice_.group for slice_ in slices(table)}
    assert commit.schema_json


def test_nothing_is_planned_twice(tmp_path: Path) -> None:
    table = make(tmp_path)
    fill(table)
    assert table.schedule_clustering() is not None
    assert table.schedule_clustering(order_by="fare") is None, "all file groups are in that plan"
    table.run_clustering()
    assert table.run_clustering() is None
    assert table.schedule_clustering() is None
    cluster(table, order_by="fare", layout="linear")
    assert table.schedule_clustering(order_by="fare") is None
    assert table.schedule_clustering(order_by=["fare", "ts"], layout="zorder") is not None


def test_settings_give_the_order(tmp_path: Path) -> None:
    table = make(
        tmp_path,
        clustering__plan__strategy__sort__columns="fare",
        layout__optimize__strategy="HILBERT",
    )
    fill(table)
    instant = cluster(table)
    ref = open_ref(table.uri)
    found = ref.load_timeline().find(instant)
    assert found is not None
    requested = replace(found, action=Action.CLUSTERING)
    plan = clustering_plan_of(read_plan(ref.env, ref.properties.timeline_paths, requested))
    assert read_order(plan, ref.config) == RowOrder(("fare",), Layout.HILBERT)


def test_slices_without_base_files_or_rows_are_clustered(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(range(10)))
    table.insert(rows(range(10, 20)))
    table.delete(list(range(10)))
    before = rows_by_key(table.to_arrow())
    cluster(table)
    assert rows_by_key(table.to_arrow()) == before
    table.delete(list(range(10, 20)))
    cluster(table, order_by="fare")
    assert table.to_arrow().num_rows == 0
    assert slices(table) == []
    table.upsert(rows([3]))
    assert table.to_arrow()["id"].to_pylist() == [3]


@pytest.mark.parametrize("order", [{}, {"order_by": "fare"}], ids=str)
def test_rows_of_older_schemas_get_the_newest(tmp_path: Path, order: dict[str, Any]) -> None:
    table = make(tmp_path, "mor")
    table.bulk_insert(rows(range(10)))
    wider = rows(range(10, 20)).append_column("extra", pa.array(range(10)))
    table.bulk_insert(wider)
    before = rows_by_key(table.to_arrow())
    assert before["15"]["extra"] == 5
    assert before["5"]["extra"] is None
    cluster(table, **order)
    assert rows_by_key(table.to_arrow()) == before
    assert all("extra" in file.schema_arrow.names for file in base_files(table))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order_by": "absent"}, InputError, "unknown column 'absent'"),
        ({"order_by": "fare", "layout": "spiral"}, InputError, "linear, zorder, hilbert"),
    ],
)
def test_bad_orders_are_refused(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = make(tmp_path)
    fill(table)
    with pytest.raises(error, match=message):
        table.schedule_clustering(**arguments)
    assert not open_ref(table.uri).load_timeline().pending.instants
