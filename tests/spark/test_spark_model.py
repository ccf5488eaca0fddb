"""Every operation of Spark on every kind of table, against a dict, read back by three readers.

`HOODOO_SPARK_HISTORIES` is the number of histories of each kind of table (1), and
`HOODOO_SPARK_SEED` the first of their seeds (0).
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from support.spark_model import INDEXES, SHAPES, SORT_MODES, Model, apply, assert_equal, history
from support.ways import WAYS

import hoodoo

pytestmark = pytest.mark.spark

FIRST = int(os.environ.get("HOODOO_SPARK_SEED", "0"))
COUNT = int(os.environ.get("HOODOO_SPARK_HISTORIES", "1"))
STEPS = 6


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_histories(spark: SparkSession, tmp_path: Path, kind: str, index: str, seed: int) -> None:
    chance = Random(f"{seed} {kind} {index}")
    by_event, mode = chance.random() < 0.7, chance.choice(SORT_MODES)
    options = {
        **INDEXES[index],
        "hoodie.bulkinsert.sort.mode": mode,
        "hoodie.parquet.small.file.limit": chance.choice(["0", "104857600"]),
        "hoodie.logfile.data.block.format": chance.choice(["parquet", "avro"]),
    }
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=SHAPES[0],
        record_key="id",
        partition_by="p",
        ordering="ts" if by_event else None,
        table_type=kind,
        options=options,
    )
    model, done = Model(index, by_event), []
    for step in history(chance, model, STEPS):
        way, files = chance.choice(list(WAYS)), chance.choice([None, tmp_path / "files"])
        done.append((way, files, step))
        apply(spark, hoodoo.open_table(table.uri, {**options, **WAYS[way]}), model, step, files)
    assert_equal(spark, table, model, done)
