"""docs/spark.md shows what works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"

pytestmark = pytest.mark.spark


def test_examples(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example.replace("/data/", f"{tmp_path}/"), "docs/spark.md", "exec"), names)
    assert names["done"].stats.inserted == 2
    assert "19.1" in capfd.readouterr().out
    assert names["table"].to_arrow().num_rows == 4
    assert spark.sql("SELECT count(*) FROM v").collect()[0][0] == 4
