"""The guided tour of hoodoo demo: steps on a small table that show conflicts and crashes.

Read in this order:
    `tour`               a step, what all steps share, and how a step reports
    `steps`              the steps, in the order of the tour
    `checkpoint`         a point where Spark tasks report and wait
    `paused_writer`      a writer that waits in the middle of its write
    `killed_writer`      a Spark driver that the tour kills
    `killed_compaction`  a compaction that the tour kills

In: a Spark session and a place for the table. Out: text; a step fails if what it shows is not true.
Not here: tests of crashes (hoodoo_testing/simulator). Processes are started with python -m.
"""
