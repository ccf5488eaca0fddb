"""One Spark session for all Spark tests: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.sessions import local_session

from hoodoo.spark.session.session import override_settings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Expressions are not compiled: for few rows and many plans, that takes longer than the rows.

    For modules that write much; others run as users do. Spark cannot list tables this way.
    """
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with override_settings(spark, settings):
        yield
