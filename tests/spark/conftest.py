"""One Spark session for all Spark tests: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.sessions import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
