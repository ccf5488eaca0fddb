"""Delete, update and merge by predicate on Arrow tables, each as one commit.

Read in this order:
    `requests`       what users ask for: DELETE, UPDATE, MERGE, and checks of their columns
    `find_rows`      rows that may match, found slice by slice on an engine, within a byte limit
    `operations`     reads what matches, computes new rows, writes the changes
    `write_changes`  changed, deleted and added rows -> one plan and its commit

Flow: `operations.change` -> `find_rows` in one snapshot -> `write_changes.write_changed` plans on
the same snapshot -> `execute.execute`. If another writer changes the same file groups meanwhile,
the conflict check fails, and a retry reads again. If nothing matches, nothing is committed.

In: a request, and for MERGE a source table. Out: `CommitResult`, or None if nothing matched.
Not here: the same on DataFrames (spark/row_changes), SQL expressions (rows/expressions), filters
(model/predicate, rows/filter).
"""
