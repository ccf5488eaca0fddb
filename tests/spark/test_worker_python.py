"""Which Python Spark's workers run: the driver's in local mode, and one that is looked at first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hoodoo.spark.session.worker_python import is_driver_python

pytestmark = pytest.mark.spark

SESSION = """
import sys
from pyspark.sql import SparkSession
import hoodoo
from hoodoo.errors import EngineFailed

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.createDataFrame([("a", "x", 1), ("b", "y", 1)], "id string, part string, ts long")
table = hoodoo.create_table(
    sys.argv[1], schema=df.schema, record_key="id", partition_by="part", ordering="ts",
    table_type="mor",
)
"""
WRITE_AND_READ = """
table.upsert(df)
table.upsert(df.withColumn("ts", df.ts + 1))
print("read", sorted(row.ts for row in table.read(spark).collect()))
source = spark.read.format("hoodoo").load(sys.argv[1])
print("source", sorted(row.ts for row in source.collect()))
df.write.format("hoodoo").mode("append").save(sys.argv[1])
print("appended", source.count(), spark.read.format("hoodoo").load(sys.argv[1]).count())
"""
REFUSED = """
try:
    table.upsert(df)
except EngineFailed as error:
    print("refused", error)
print("instants", len(table.timeline()))
"""


def run_session(tmp_path: Path, script: str, **variables: str) -> str:
    """What a script prints whose `PATH` has a `python3` without hoodoo, and nothing activated."""
    programs = tmp_path / "programs"
    programs.mkdir()
    other = programs / "python3"
    bare = getattr(sys, "_base_executable", sys.executable)
    other.write_text(f'#!/bin/sh\nexec "{bare}" -S "$@"\n')  # without site-packages
    other.chmod(0o755)
    path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    kept |= {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    kept = {name: value.format(other=other) for name, value in kept.items()}
    done = subprocess.run(
        [sys.executable, "-c", SESSION + script, str(tmp_path / "table")],
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_local_workers_run_the_drivers_python_without_settings(tmp_path: Path) -> None:
    told = run_session(tmp_path, WRITE_AND_READ)
    assert told.splitlines() == ["read [2, 2]", "source [2, 2]", "appended 2 4"]


def test_python_without_hoodoo_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    told = run_session(tmp_path, REFUSED, PYSPARK_PYTHON="{other}")
    refused, instants = told.splitlines()
    assert "No module named" in refused
    assert "PYSPARK_PYTHON" in refused
    assert "spark.pyspark.python" in refused
    assert "--archives" in refused
    assert instants == "instants 0"


def test_environments_that_share_an_interpreter_are_told_apart(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.symlink_to(Path(sys.executable).resolve())
    assert is_driver_python(sys.executable)
    assert not is_driver_python(str(other))
    assert not is_driver_python("no-such-program")


def test_a_driver_that_was_started_by_a_relative_path_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Path(sys.executable)
    monkeypatch.setattr(sys, "executable", str(program.parent / ".." / "bin" / program.name))
    assert is_driver_python(str(program))
