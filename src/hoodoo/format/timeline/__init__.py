"""Files of the timeline: instants of the active timeline, and the archived timeline.

Read in this order:
    `records`        Avro records of timeline files <-> values of model/commit and model/plans
    `instant_files`  which record a file of each action and state holds; encode and decode
    `history`        the archived timeline: Parquet files of instants, manifests, version file
    `old_history`    the archived timeline of old tables (layout 1); read only

In: bytes of a timeline file, with its action and state. Out: metadata values; bytes to create.
Not here: listing the timeline (table/timeline, table/history), creating and deleting its files
(concurrency/transactions; services/archive for the archived timeline).
"""
