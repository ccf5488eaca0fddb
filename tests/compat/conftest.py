"""Apache Hudi itself, started once for all tests of this folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.peer_client import Peer
from pyspark.sql import SparkSession
from support.hudi_classes import ClassesUnavailable, HudiClasses, hudi_classes
from support.servers import or_skip
from support.sessions import local_session

from hoodoo_testing.servers.zookeeper import ZooKeeperServer, zookeeper

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / "scripts" / "peers.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture(scope="session")
def installed_hudi() -> dict[str, str]:
    """Where an Apache Hudi is; skips, naming what is missing, where it cannot be had."""
    found = subprocess.run([sys.executable, PEERS], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no Apache Hudi here: {found.stderr.strip().splitlines()[-1]}")
    where: dict[str, str] = json.loads(found.stdout)
    return where


@pytest.fixture(scope="session")
def hudi(
    installed_hudi: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """A running Apache Hudi."""
    peer = Peer(installed_hudi, tmp_path_factory.mktemp("hudi"))
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def spark(hudi: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Our own Spark, of another version than Hudi's."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper for the locks of both."""
    with or_skip(zookeeper(tmp_path_factory.mktemp("zookeeper"))) as running:
        yield running


@pytest.fixture(scope="module")
def classes() -> Iterator[HudiClasses]:
    """Classes of Apache Hudi's, without a Spark."""
    try:
        with hudi_classes() as running:
            yield running
    except ClassesUnavailable as reason:
        pytest.skip(f"no Apache Hudi here: {reason}")
