"""`read.scan` and the data source find files by the metadata table, like `to_arrow`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import FILES
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo_testing.tables.metadata_tables import make_listing

pytestmark = pytest.mark.spark

Unpack = Callable[[str], Path]
OFF = {"hoodie.metadata.enable": "false"}


def test_spark_reads_do_not_see_a_file_that_the_metadata_table_hides(
    spark: SparkSession, unpack: Unpack, tmp_path: Path
) -> None:
    path = str(shutil.copytree(unpack("cow/v9_txns_simple_nometa"), tmp_path / "t"))
    every = hoodoo.open_table(path).to_arrow().num_rows
    ref = open_ref(path)
    made = make_listing(ref)
    slice_ = take_snapshot(ref).slices()[0]
    assert slice_.base is not None
    hide = file_changes({}, {slice_.group.partition: [str(slice_.base.name)]})
    time, ended = InstantTime("20990101000000000"), InstantTime("20990101000000001")
    made.commit(time, {FILES: hide}, completion_time=ended)
    hoodoo.register(spark)

    def counts(options: dict[str, str]) -> set[int]:
        table = hoodoo.open_table(path, options)
        source = spark.read.format("hoodoo").options(**options).load(path)
        return {table.to_arrow().num_rows, table.read(spark).count(), source.count()}

    (fewer,) = counts({})
    assert fewer < every
    assert counts(OFF) == {every}


def test_spark_reads_leave_out_files_by_statistics(spark: SparkSession, unpack: Unpack) -> None:
    path = str(unpack("cow/v9_txns_simple_meta"))
    where = "txn_id = 'TXN-001'"
    few = hoodoo.open_table(path).read(spark, filter=where)
    every = hoodoo.open_table(path, {"hoodie.enable.data.skipping": "false"}).read(
        spark, filter=where
    )
    assert len(few.inputFiles()) < len(every.inputFiles())
    assert few.collect() == every.collect()
