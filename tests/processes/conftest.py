"""Servers for the tests with many processes, started once per session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import Children
from support.servers import or_skip

from hoodoo_testing.servers.zookeeper import ZooKeeperServer, zookeeper


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Processes that end with the test."""
    with Children(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper."""
    with or_skip(zookeeper(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server
