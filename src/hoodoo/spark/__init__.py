"""hoodoo on Spark: DataFrames in and out."""
