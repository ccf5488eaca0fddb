"""Tables for tests that hoodoo itself does not write, and what an index must contain.

    `old_versions`     turns a table of version 9 into one of version 8 or 6
    `metadata_tables`  makes metadata tables by hand, out of entries
    `fresh_indexes`    compares the indexes in use with indexes built from scratch

In: a table that hoodoo wrote. Out: changed files of that table, or a list of differences.
Not here: checks of a simulated table (hoodoo_testing/simulator/checks).
"""
