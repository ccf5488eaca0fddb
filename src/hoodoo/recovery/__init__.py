"""Undoing writes that died: who is dead, rolling back, and sweeping what was left.

Read in this order:
    `recover`   judges each pending instant, then rolls back the dead ones; the entry point
    `rollback`  one rollback: decided in a transaction, carried out outside the lock
    `sweep`     deletes old heartbeats, markers and files of tasks that came late
    `strays`    data files that no commit names; `strays.delete_files` deletes data files

Flow: `recover.recover` finishes the last decision of the head (`recover.finish_decision`), then
`recover.roll_back_dead_writes`: `heartbeats.load_writer_statuses` -> `recover.judge_all` ->
`rollback.schedule_rollback` (decided by the head: from then on no writer can commit the instant) ->
`rollback.carry_out_rollback` deletes its files, undoes its entries in the metadata table and takes
it off the timeline -> `sweep.sweep`. A write first runs `recover.recover_before_write` (settings
may switch that off); a write that fails rolls itself back with `recover.roll_back_own_attempt`.
If a rollback dies, it is pending on the timeline; the next recover resumes it with
`rollback.resume_rollback`. A file that is missing already is a success.

In: a `TableRef`. Out: what was rolled back, left alone (and why), and swept.
Not here: judging heartbeats (concurrency/heartbeats), the head (concurrency/transactions),
cancelling a plan (services/plans/cancel), taking completed commits back (services/restore),
deleting old file versions (services/clean).
"""
