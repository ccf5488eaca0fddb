"""What `hoodoo.configure` sets in a session, and that it works."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.spark.session.configure import recommended_settings

DAEMON = "spark.python.daemon.module"
SOCKETS = "spark.python.unix.domain.socket.enabled"

_JOB = """
import gc, os, sys
from pyspark.sql import SparkSession
import hoodoo

builder = hoodoo.configure(SparkSession.builder.master("local[1]"))
spark = builder.config("spark.ui.enabled", "false").getOrCreate()

def seen(_):
    import zipimport
    from hoodoo.spark.session import workers
    parent = open(f"/proc/{os.getppid()}/cmdline").read()
    kept = zipimport.zipimporter.invalidate_caches is workers._read_if_changed
    has_hoodoo = "hoodoo.write.files.handle" in sys.modules and gc.get_freeze_count() > 10_000
    return "hoodoo.spark.worker_daemon" in parent, has_hoodoo, kept, sys.executable

print(spark.sparkContext.parallelize([0], 1).map(seen).collect())
"""


@pytest.fixture
def short_path() -> Iterator[str]:
    """A directory for a socket, whose whole path may have about a hundred bytes."""
    with tempfile.TemporaryDirectory() as place:
        yield place


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON")


def test_builder_gets_the_settings() -> None:
    builder = hoodoo.configure(SparkSession.builder)
    assert builder._options[DAEMON] == "hoodoo.spark.worker_daemon"
    assert builder._options["spark.sql.execution.arrow.pyspark.enabled"] == "true"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_own_setting_wins_whether_before_or_after() -> None:
    before = hoodoo.configure(SparkSession.builder.config(DAEMON, "mine"))
    assert before._options[DAEMON] == "mine"
    after = hoodoo.configure(SparkSession.builder).config(DAEMON, "mine")
    assert after._options[DAEMON] == "mine"


def test_own_worker_python_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    hoodoo.configure(SparkSession.builder.config("spark.pyspark.python", "from-builder"))
    assert os.environ["PYSPARK_PYTHON"] == "from-builder"
    monkeypatch.setenv("PYSPARK_PYTHON", "from-environment")
    hoodoo.configure(SparkSession.builder)
    assert os.environ["PYSPARK_PYTHON"] == "from-environment"


def test_sockets_are_set_from_the_version_that_has_them() -> None:
    assert SOCKETS not in recommended_settings("4.0.5")
    assert recommended_settings("4.1.0.dev1")[SOCKETS] == "true"
    assert recommended_settings("5.0.0")[SOCKETS] == "true"


@pytest.mark.spark
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_workers_come_from_the_daemon_that_has_hoodoo() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", _JOB],
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    keeps = sys.version_info < (3, 13)
    assert str([(True, True, keeps, sys.executable)]) in done.stdout, done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for the end of a process by it")
def test_worker_that_spark_lets_go_ends_without_a_word(short_path: str) -> None:
    over_sockets = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": short_path,
        "SPARK_REUSE_WORKER": "1",
    }
    daemon = subprocess.Popen(
        [sys.executable, "-m", "hoodoo.spark.worker_daemon", "pyspark.worker"],
        env={**os.environ, **over_sockets},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert daemon.stdout is not None
    (length,) = struct.unpack("!i", daemon.stdout.read(4))
    with socket.socket(socket.AF_UNIX) as spark:
        spark.connect(daemon.stdout.read(length))
        (worker,) = struct.unpack("!i", spark.recv(4))
        end = os.pidfd_open(worker)
    assert select.select([end], [], [], 60)[0]
    os.close(end)
    _, told = daemon.communicate(timeout=60)
    assert told == b""
