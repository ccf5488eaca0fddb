"""Many writers on one table: locks, heartbeats, markers, conflicts, and the commit itself.

Read in this order:
    `locks/`         the table's lock, by four providers
    `heartbeats`     a writer shows that it is alive; others judge whether it is dead, or take over
    `markers`        a write announces each data file before it creates the file
    `conflicts/`     which instants of other writers stop an instant from being published
    `transactions/`  lock, head and timeline together; the gate where a commit becomes visible

A write: `instants.open_instant` creates the heartbeat, `markers.announce` comes before each file,
and `gate.publish` completes the instant in one `transaction.transaction`, after the conflict rules.
If a writer dies, its heartbeat gets old: `heartbeats.load_writer_statuses` then reports it as dead.
Its markers name its files, and recovery rolls its instant back.

In: a `TableRef`, an instant, the metadata to publish. Out: a completed instant, or an error that
says what to do.
Not here: the steps of a write (write), rolling back (recovery), plans of services (services/plans).
The rooms here read no rows.
"""
