"""Writes and reads on Spark, beside plain Parquet, Apache Hudi and Delta."""
