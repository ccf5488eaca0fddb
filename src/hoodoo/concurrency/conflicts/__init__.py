"""Conflicts: which instants of other writers stop an instant from being published.

Read in this order:
    `rules`               pure rules and strategies; `rules.find_conflicts` decides
    `changes_since`       the facts: instants completed or pending since the plan was made
    `schema_rebase`       the schema to publish on top of commits that the writer did not know
    `writes_in_progress`  live writes of other processes
    `announced_files`     what their markers and bloom filters say about file groups
    `early_detection`     the same rules, asked while a write still runs

Flow in the gate: `begin.check_conflicts` (write/commit) -> `changes_since.refuse_conflicts` loads
the other instants -> `rules.find_conflicts` -> `WriteConflict`, or the commit goes on top of them.
`rules.find_plans_to_cancel` names the cancellable plans that end with the commit.
Flow while a write runs: `early_detection.watch` looks each period; tasks look when they announce a
file. Of two writes in progress, the one that was requested later gives way with `EarlyConflict`.
A crash leaves nothing here but a bloom filter object, which the sweep deletes (recovery/sweep).

In: the timeline of a transaction and the timeline that the plan was made on. Out: an error, or the
other instants to rebase on.
Not here: equal keys inserted by two writes (write/commit/key_guard), retries (write/retry), the
report about conflicts (inspect/conflicts). docs/protocol/conflicts.md has the matrix of rules.
"""
