"""Actors for scenarios: writers with known rows, a cluster that repeats tasks, another engine.

    `tables`        a table with writers, and the rows that must come of their writes
    `cluster`       executors that run tasks twice, late, or after their job has ended
    `other_engine`  an engine like Apache Hudi: it knows the lock and no head

In: an environment of hoodoo_testing/simulator/world. Out: writes on the simulated table, and a
ledger of what each writer was told.
Not here: what must hold of the table (hoodoo_testing/simulator/checks).
"""
