"""Servers for the tests with many processes, started once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.servers import or_skip

from hoodoo.testing.zookeeper import ZooKeeperServer, zookeeper


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper."""
    with or_skip(zookeeper(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server
