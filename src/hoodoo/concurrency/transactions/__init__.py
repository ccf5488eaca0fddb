"""The commit protocol: instants begin here, and replacing the table's head decides how they end.

Read in this order:
    `head`           the head object: read with its version, replaced by condition
    `decisions`      carries a decision out: creates, replaces or deletes the one file it names
    `transaction`    `Txn`: lock held, head and timeline loaded, the last decision finished
    `instants`       begins an instant: new time, heartbeat, requested and inflight file
    `gate`           completes instants, requests plans, cancels plans, changes properties
    `other_engines`  beside engines that know the lock but no head, such as Apache Hudi

Flow of a commit: `transaction.transaction` -> `gate.publish` checks state, rollbacks, cancels and
owner; calls the writer's checks (conflicts, keys) and has the metadata table written ->
`head.replace_head` replaces the head -> `decisions.apply_decision` creates the completed file. The
commit is decided at the head and visible with the completed file. If the head has changed
meanwhile, all checks run again.
Crash before the head: nothing is visible; recovery rolls the instant back. Crash after the head:
the commit stands. The next process that opens a transaction creates the completed file
(`transaction.load_head_and_timeline`); hoodoo recover does the same (`recover.finish_decision`).
Only if an engine that knows no head has gone on meanwhile, the decision is void
(`other_engines.find_overtaker`).
If the outcome is not known, the writer gets `CommitUnknown`.

In: a `TableRef`, an `Attempt` (instant and heartbeat), callbacks with the caller's checks.
Out: an instant in its new state.
Not here: conflict rules (concurrency/conflicts), what a write checks (write/commit), undoing
(recovery), moving old instants away (services/archive). No other room replaces the head.
"""
