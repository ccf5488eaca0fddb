"""Keys of table services in general: who may execute a plan, and what becomes of a stuck one."""

from __future__ import annotations

from hoodoo.config.key import Key, boolean, integer, one_of
from hoodoo.model.plans import PlanPolicy

SERVICES_ENABLED = Key(
    "hoodie.table.services.enabled",
    boolean,
    True,
    "Writes run the table services that are due when they have committed; false: only other "
    "processes do, such as `hoodoo upkeep`.",
)
UPKEEP_POLICY = Key(
    "hoodie.table.service.plan.policy",
    one_of(PlanPolicy),
    PlanPolicy.CANCELLABLE,
    "What may become of plans of clustering and log compaction that writes and `hoodoo upkeep` "
    "make: persistent, removable or cancellable. Compactions are persistent.",
)
EXECUTION_GUARD = Key(
    "hoodie.table.service.execution.guard.enable",
    boolean,
    True,
    "An executor of a plan gives way to one that is alive. Without this it takes the plan over at "
    "once; of two executors still only one completes the plan.",
)
ROLLBACK_DELAY_MIN = Key(
    "hoodie.table.service.rollback.delay.minutes",
    integer(-1),
    1440,
    "Age, by the store's clock, after which a removable plan that nobody executes is rolled back; "
    "-1 is never.",
)
