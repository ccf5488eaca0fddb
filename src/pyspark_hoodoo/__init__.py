"""Where Spark finds the data source `hoodoo` by itself: it looks into packages named pyspark_*."""

from __future__ import annotations

from hoodoo.spark.datasource.source import TableSource as DefaultSource

__all__ = ["DefaultSource"]
