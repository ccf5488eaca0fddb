"""Text for people, JSON for programs, and progress bars; no other part of cli prints.

Read in this order:
    `text`       lines, tables, pairs, JSON, sizes and ages
    `rows`       rows of tables as cells and JSON lines
    `timeline`   instants and file groups in 80 columns
    `conflicts`  writes in progress, and who will lose
    `progress`   bars on a terminal or in a notebook

In: reports of inspect, Arrow tables, progress of a write. Out: stdout and stderr.
Not here: gathering the facts (inspect), HTML for notebooks (inspect/html).
"""
