"""The life of a plan of a table service: scheduled, owned by one executor, completed or cancelled.

Read in this order:
    `pending`  schedules a plan, makes this process its executor, lists pending plans
    `cancel`   ends a plan: request, execution, plans that are overdue
    `execute`  executes a plan that rewrites data files, with handles and gate as a write has

Flow: `pending.schedule` puts the plan on the timeline (`gate.request_plan`); `execute.run_rewrite`
-> `pending.own_plan` takes the heartbeat over with the next epoch -> tasks -> `finalize.finalize`
-> `gate.publish`. Only the owner with the newest epoch can complete the plan.
If an executor dies, its heartbeat gets old. The next executor of a persistent plan adopts the files
that are finished; a removable plan is rolled back by recover; a cancellable one is cancelled.
A stuck plan is ended here: `cancel.request_cancel` decides that no executor completes it (hoodoo
cancel), `cancel.execute_cancel` rolls it back once no executor is alive, and
`cancel.cancel_overdue` does both for plans past their limits; upkeep calls it. If the cancelling
process dies, the request stays, and the next upkeep or recover goes on.

In: a function that builds a plan for a timeline; a `RewriteService` that turns plans into tasks.
Out: a requested instant; `ServiceResult`; the rollback of a cancelled plan.
Not here: what a plan contains (the room of each service), terms of plans as values (model/plans),
when a plan is due (services/registry), the rollback itself (recovery/rollback).
"""
