"""A Spark session that was stopped: writes say so, and begin nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

STOPPED = """
import sys
from pathlib import Path
from support.sessions import local_session
import hoodoo

place = Path(sys.argv[1])
spark = local_session(place / "session")
rows = spark.createDataFrame([("a", "x")], "id string, p string")
table = hoodoo.create_table(str(place / "t"), schema=rows.schema, record_key="id", partition_by="p")
spark.stop()
for write in (table.upsert, table.bulk_insert, table.delete):
    try:
        write(rows)
    except hoodoo.HoodooError as error:
        print(type(error).__name__, error)
assert table.timeline() == []
"""


def test_a_session_that_was_stopped(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        cwd=tests,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["InputError the Spark session was stopped"] * 3
