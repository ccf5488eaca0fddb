"""docs/streaming.md shows what works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "streaming.md"

pytestmark = pytest.mark.spark


def test_examples_of_streaming(spark: SparkSession, tmp_path: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    names: dict[str, Any] = {}
    for example in examples:  # they have assertions of their own
        exec(compile(example.replace("/data/", f"{tmp_path}/"), str(PAGE), "exec"), names)
    assert names["seen"] == [3]
