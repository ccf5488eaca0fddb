"""Servers for the storage tests, started once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.servers import or_skip

pytest.register_assert_rewrite("hoodoo_testing.storage_contract", "hoodoo_testing.storage_contract")

from hoodoo_testing.servers.object_stores import S3Server, rclone  # noqa: E402 - after the rewrite


@pytest.fixture(scope="session")
def careless_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """rclone: an S3 that ignores conditions."""
    with or_skip(rclone(tmp_path_factory.mktemp("rclone"))) as server:
        yield server
