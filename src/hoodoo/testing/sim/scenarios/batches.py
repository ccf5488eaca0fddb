"""Two processes that send the same batch, as often as it takes: it is committed once."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.api import Table
from hoodoo.env import Env
from hoodoo.errors import HoodooError
from hoodoo.testing.sim.stage import Violation
from hoodoo.testing.sim.tables import EXPIRY_MS, TableScenario, Write
from hoodoo.testing.sim.world import Action

_TRIES = 3


class SameBatch(TableScenario):
    """Inserts, which do not look for keys: a second commit would have every row twice."""

    name = "same-batch"
    batch = Write(1, ("x", "y"), parts=("q",), operation="insert")

    def actors(self) -> Mapping[str, Action]:
        self.ledger.writes[self.batch.v] = self.batch
        return {"w1": self._send, "w2": self._send}

    def _send(self, env: Env) -> None:
        """Send the batch until it is answered, whatever goes wrong."""
        for _ in range(_TRIES):
            try:
                self._write_once(self.table(env))
            except HoodooError:  # also one that does not tell whether it is committed
                env.clock.sleep(EXPIRY_MS / 1000)
            else:
                return

    def _write_once(self, table: Table) -> None:
        write = getattr(table, self.batch.operation)
        done = write(self.batch.rows(), transaction=("app", 1))
        known = self.ledger.acknowledged.setdefault(self.batch.v, done.instant)
        if known != done.instant:
            raise Violation(f"the batch was acknowledged as {known} and as {done.instant}")


class SameBatchUpsert(SameBatch):
    """Upserts of one file group, which are in conflict with each other as well."""

    name = "same-batch-upsert"
    batch = Write(1, ("a", "x"))


SCENARIOS = (SameBatch, SameBatchUpsert)
