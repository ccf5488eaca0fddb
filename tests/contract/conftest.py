"""Servers for the storage tests, started once per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("hoodoo.testing.contract", "hoodoo.testing.races")

from hoodoo.testing.servers import S3Server, ServerUnavailable, rclone, seaweedfs  # noqa: E402 - after the rewrite


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS: an S3 that honours conditions."""
    try:
        with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def careless_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """rclone: an S3 that ignores conditions."""
    try:
        with rclone(tmp_path_factory.mktemp("rclone")) as server:
            yield server
    except ServerUnavailable as reason:
        pytest.skip(str(reason))
