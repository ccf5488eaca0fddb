"""Begin and commit of a write: taking an instant, and publishing it through the gate.

Read in this order:
    `begin`                 conflict check, heartbeat, requested and inflight file
    `publish`               the commit: all checks and the metadata table, inside one transaction
    `batches`               no batch of an application is committed twice
    `key_guard`             no key is inserted by two writes at once
    `record_index_changes`  keys that the commit puts into file groups, or takes out

Flow: `begin.begin` takes the instant; the stage writes files (write/files); `publish.commit` has
keys and metadata log files prepared without the lock (`KeyGuard.search_keys`,
`MetadataTableRecorder.prepare`), then opens `transaction.transaction` and calls `gate.publish`.
Inside: properties, batch, conflicts (`begin.check_conflicts`), schema, keys, then
`MetadataTableRecorder.record_commit`; then the head is replaced, and the commit stands. If a check
needs slow reads, the lock is given back and the gate is entered again.
Crash before the head: a pending instant with invisible files; recovery rolls it back. Crash after
the head: the commit stands, and the next transaction creates its completed file. Markers that are
left are swept.

In: an `Assignment`, write stats. Out: the completed instant; or `WriteConflict`, `CommitFailed`,
or `CommitUnknown` if the outcome is not known.
Not here: replacing the head (concurrency/transactions), conflict rules (concurrency/conflicts),
retries (write/retry), commits of services (services/plans/execute).
"""
