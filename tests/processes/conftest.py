"""Servers for the tests with many processes, started once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hoodoo.testing.servers import S3Server, ServerUnavailable, seaweedfs
from hoodoo.testing.zookeeper import ZooKeeperServer, zookeeper


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS: an S3 that honours conditions."""
    try:
        with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper."""
    try:
        with zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))
