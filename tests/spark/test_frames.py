"""Arrow tables become DataFrames without losing rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodoo.spark.schema import to_frame

pytestmark = pytest.mark.spark


def test_no_row_is_lost_behind_an_empty_chunk(spark: SparkSession) -> None:
    some = pa.table({"a": [1, 2, 3]})
    rows = pa.concat_tables([some.slice(0, 0), some, some.slice(0, 0), some])
    assert to_frame(spark, rows).count() == 6
