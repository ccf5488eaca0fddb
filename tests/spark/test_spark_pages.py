"""The pages with examples for Spark show what works."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.pages import DOCS, needs_spark, run_page

pytestmark = pytest.mark.spark

GUIDES = [DOCS / "quick-start.md", *sorted(DOCS.glob("guides/*.md"))]
PAGES = [page for page in GUIDES if needs_spark(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_on_spark(
    spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)


def test_page_about_spark(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = run_page(DOCS / "spark.md", tmp_path)
    assert names["done"].stats.inserted == 2
    assert "19.1" in capfd.readouterr().out
    assert names["table"].to_arrow().num_rows == 4
    assert spark.sql("SELECT count(*) FROM v").collect()[0][0] == 4
