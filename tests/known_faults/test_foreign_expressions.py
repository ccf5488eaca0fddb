"""Conditions and values given as SQL text on Spark run no code of the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.hostile import new_table
from support.sessions import local_session

from hoodoo.errors import HoodooError

pytestmark = pytest.mark.spark

PROPERTY = "hoodoo.tests.reached"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.mark.parametrize("function", ["reflect", "java_method", "try_reflect"])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: a condition on Spark calls any method of the JVM by reflection",
)
def test_a_condition_calls_no_method_of_the_jvm(
    tmp_path: Path, spark: SparkSession, function: str
) -> None:
    table = new_table(tmp_path / "table")
    name = f"{PROPERTY}.{function}"
    call = f"{function}('java.lang.System', 'setProperty', '{name}', 'yes')"
    with suppress(HoodooError):
        table.delete(where=f"{call} = 'never'", spark=spark)
    assert spark._jvm.java.lang.System.getProperty(name) is None


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: a value to set on Spark calls any method of the JVM by reflection",
)
def test_a_value_to_set_calls_no_method_of_the_jvm(tmp_path: Path, spark: SparkSession) -> None:
    table = new_table(tmp_path / "table")
    call = "reflect('java.lang.System', 'getProperty', 'java.vendor')"
    with suppress(HoodooError):
        table.update({"city": call}, where="id='k1'", spark=spark)
    assert set(table.to_arrow()["city"].to_pylist()) == {"sf"}
