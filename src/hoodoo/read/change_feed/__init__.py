"""Rows that changed between two moments of completion time: incremental reads and change feed.

Read in this order:
    `window`       the commits that completed in a window, and the table at both ends of it
    `incremental`  rows inserted or updated, as they are at the end of the window
    `diff`         two versions of rows -> inserts, updates, deletes
    `feed`         the change feed: file groups that changed, compared at both ends

Flow: `incremental.open_window` -> `window.load_window` -> `feed.open_change_feed` ->
`feed.read_feed`.
If a clean has deleted files that the window needs, `window.refuse_cleaned` raises an error instead
of returning too few changes.

In: a `TableRef` and the ends of the window. Out: rows, or rows with a column _change_type.
Not here: streams and DataFrames of changes (spark/datasource, spark/read), how long old files stay
(services/clean).
"""
