"""Every operation on every index, carrier and table type, against a dict, read by three readers.

The README's matrix is made of the parameters of the first two tests (`scripts/reference.py`). CI
has each index and each carrier on each table type, and each index with two carriers; nights have
all that meet. At night, random histories alternate between carriers: `HOODOO_SPARK_HISTORIES` of
each kind of table (3), from the seed `HOODOO_SPARK_SEED` on (0).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from support.carriers import CARRIERS
from support.spark_model import (
    INDEXES,
    SHAPES,
    SORT_MODES,
    Model,
    apply,
    assert_equal,
    every_operation,
    history,
)

import hoodoo

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

FIRST = int(os.environ.get("HOODOO_SPARK_SEED", "0"))
COUNT = int(os.environ.get("HOODOO_SPARK_HISTORIES", "3"))
STEPS = 12
TABLE_TYPES = ("cow", "mor")


def make_table(place: Path, kind: str, index: str, chance: Random) -> tuple[hoodoo.Table, Model]:
    """An empty table with settings by chance, and its model."""
    by_event = chance.random() < 0.7
    table = hoodoo.create_table(
        str(place),
        schema=SHAPES[0],
        record_key="id",
        partition_by="p",
        ordering="ts" if by_event else None,
        table_type=kind,
        options={
            **INDEXES[index],
            "hoodie.bulkinsert.sort.mode": chance.choice(SORT_MODES),
            "hoodie.parquet.small.file.limit": chance.choice(["0", "104857600"]),
            "hoodie.logfile.data.block.format": chance.choice(["parquet", "avro"]),
        },
    )
    return table, Model(index, by_event)


def reopen(table: hoodoo.Table, options: Mapping[str, str]) -> hoodoo.Table:
    """The table with the settings that it was made with, and these."""
    return hoodoo.open_table(table.uri, {**table._ref.config.values, **options})


@pytest.mark.thin(4)
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", TABLE_TYPES)
def test_every_operation(
    spark: SparkSession, tmp_path: Path, kind: str, index: str, carrier: str
) -> None:
    run_every_operation(spark, tmp_path, kind, index, carrier)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", TABLE_TYPES)
def test_every_operation_without_spark(
    spark: SparkSession, tmp_path: Path, kind: str, index: str
) -> None:
    run_every_operation(spark, tmp_path, kind, index, None)


def run_every_operation(
    spark: SparkSession, place: Path, kind: str, index: str, carrier: str | None
) -> None:
    """One history on one table; without a carrier, the local engine writes."""
    chance = Random(f"{kind} {index} {carrier or 'local engine'}")
    table, model = make_table(place / "t", kind, index, chance)
    done = []
    for step in every_operation(chance, model, by_spark=carrier is not None):
        files = chance.choice([None, place / "files"])
        done.append((files, step))
        apply(spark, reopen(table, CARRIERS[carrier] if carrier else {}), model, step, files)
    assert_equal(spark, table, model, done)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", TABLE_TYPES)
def test_histories(spark: SparkSession, tmp_path: Path, kind: str, index: str, seed: int) -> None:
    chance = Random(f"{seed} {kind} {index}")
    table, model = make_table(tmp_path / "t", kind, index, chance)
    done = []
    for step in history(chance, model, STEPS):
        carrier, files = (
            chance.choice(list(CARRIERS)),
            chance.choice([None, tmp_path / "files"]),
        )
        done.append((carrier, files, step))
        apply(spark, reopen(table, CARRIERS[carrier]), model, step, files)
    assert_equal(spark, table, model, done)
