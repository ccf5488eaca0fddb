"""Benchmarks: what hoodoo costs against the plain way of doing the same."""
