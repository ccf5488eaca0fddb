"""New tables have a metadata table, unless their options say otherwise."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.inspect.doctor import compare_listings
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.indexing.create import add_metadata_partitions, default_metadata_partitions
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.create import create_table as create_bare

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
ROWS = pa.table([["a", "b"], ["x", "y"], [1, 2]], schema=SCHEMA)
STATS = "hoodie.metadata.index.column.stats.enable"
BLOOM = "hoodie.metadata.index.bloom.filter.enable"


def create(place: str, options: dict[str, object], partition_by: str | None = "p") -> hoodoo.Table:
    return hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by=partition_by, options=options
    )


def partitions(table: hoodoo.Table) -> set[str]:
    named = hoodoo.open_table(table.uri).properties.get("hoodie.table.metadata.partitions", "")
    return set(filter(None, named.split(",")))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"files", "column_stats", "partition_stats"}),
        ({STATS: False}, {"files"}),
        ({BLOOM: True}, {"files", "column_stats", "partition_stats", "bloom_filters"}),
        ({"hoodie.metadata.enable": False}, set()),
        ({"hoodie.metadata.enable": False, BLOOM: True}, set()),
    ],
    ids=["default", "listing", "bloom", "none", "none-though-bloom"],
)
def test_a_new_table_has_the_partitions_that_its_options_ask_for(
    tmp_path: Path, options: dict[str, object], expected: set[str]
) -> None:
    table = create(str(tmp_path / "t"), options)
    assert partitions(table) == expected
    table.upsert(ROWS)
    assert table.to_arrow().num_rows == 2
    if expected:
        assert not compare_listings(table._ref)
    else:
        assert not (tmp_path / "t" / ".hoodie" / "metadata").exists()


def test_a_table_without_partitions_has_no_statistics_of_partitions(tmp_path: Path) -> None:
    table = create(str(tmp_path / "t"), {}, partition_by=None)
    assert partitions(table) == {"files", "column_stats"}


def test_a_table_in_memory_has_a_metadata_table() -> None:
    table = create("memory://metadata-by-default", {})
    table.upsert(ROWS)
    assert partitions(table) == {"files", "column_stats", "partition_stats"}
    assert not compare_listings(table._ref)


def test_a_creator_that_dies_halfway_leaves_a_table_that_can_be_written(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    create_bare(place, schema=SCHEMA, record_key="id", partition_by="p")  # and no further
    table = hoodoo.open_table(place)
    table.upsert(ROWS)
    assert partitions(table) == set()
    add_metadata_partitions(table._ref, LocalEngine(), "files")
    assert table.upsert(ROWS).stats.updated == 2
    assert partitions(table) == {"files"}
    assert not compare_listings(hoodoo.open_table(place)._ref)


def test_creating_a_table_takes_few_requests() -> None:
    verbs: list[str] = []
    storage = TracedStorage(MemoryStorage("few"), before=lambda verb, _: verbs.append(verb))
    ref = create_bare(
        "memory://few", schema=SCHEMA, record_key="id", partition_by="p", env=Env(storage)
    )
    bare = len(verbs)
    add_metadata_partitions(ref, LocalEngine(1), *default_metadata_partitions(ref))
    assert bare <= 6
    assert len(verbs) - bare <= 50, verbs
    assert verbs.count("create") <= 23
