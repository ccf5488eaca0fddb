"""Restore and undo: completed commits are taken back, newest first.

    `plan`     which instants a restore takes back, and why it is refused; pure
    `indexes`  what becomes of the metadata table's indexes meanwhile
    `restore`  schedules the plan, takes the commits back, completes the restore

A pending restore stops every commit: `restore.restore` schedules the plan, waits until late
requests of young commits cannot land any more, then takes one commit after the other back. A commit
is invisible before the first of its files is deleted. Crash: the restore stays pending; the same
call goes on with it.

In: a `TableRef`, an engine and a completed instant. Out: `RestoreResult`.
Not here: savepoints (services/savepoints), rolling back what is pending (recovery).
"""
