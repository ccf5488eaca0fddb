"""A cluster for all tests here, and a driver for those of each file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.drivers import Driver, driver
from support.processes import Children
from support.servers import or_skip
from support.spark_events import settings as event_log

from hoodoo_testing.servers.jvm import quick_start
from hoodoo_testing.servers.object_stores import ServerUnavailable
from hoodoo_testing.servers.spark_cluster import SparkCluster, spark_cluster

TESTS = Path(__file__).resolve().parents[1]
DRIVER_LIVES_S = 600


@pytest.fixture(scope="session")
def java_options() -> str:
    """Options of a JVM that runs a driver."""
    try:
        return " ".join(quick_start())
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers; faults can befall the Python workers."""
    place = tmp_path_factory.mktemp("spark") / "cluster"
    with or_skip(spark_cluster(place, pythonpath=[str(TESTS)])) as running:
        yield running


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the driver's event log is."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark_driver(
    request: pytest.FixtureRequest,
    cluster: SparkCluster,
    events: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Driver]:
    """A driver on the cluster, with the settings of the module's `SETTINGS`."""
    settings = {
        **cluster.settings(),
        **event_log(events),
        "spark.python.daemon.module": "support.fault_daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.locality.wait": "0",
        # Executors that are gone answer no better when they are asked again.
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "100ms",
        **request.module.SETTINGS,
    }
    script = Path(__file__).with_name("driver.py")
    with (
        Children(tmp_path_factory.mktemp("driver")) as children,
        driver(children, script, settings, deadline_s=DRIVER_LIVES_S) as running,
    ):
        yield running
