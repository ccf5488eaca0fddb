"""What users give that is Spark's: told by its class, so that pyspark need not be imported."""

from __future__ import annotations


def is_of_spark(value: object) -> bool:
    """Whether a value is a DataFrame, a session, a Column, or anything else of PySpark's."""
    return type(value).__module__.startswith("pyspark.")


def is_spark_column(value: object) -> bool:
    """Whether a value is a Column."""
    return is_of_spark(value) and type(value).__name__ == "Column"
