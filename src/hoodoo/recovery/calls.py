"""The calls of `Table` that undo what died."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    from hoodoo.recovery.recover import Recovered
    from hoodoo.recovery.rollback import RolledBack


class RecoveryCalls:
    """What users do about writes that did not end."""

    _ref: TableRef

    def recover(self) -> Recovered:
        """Roll back writes whose writer died, finish rollbacks that were cut off, and sweep.

        Writers that are alive are not disturbed; what was left, and why, is in the answer.

            >>> table.recover().rolled_back
            ()
        """
        from hoodoo.recovery.recover import recover

        return recover(self._ref)

    def rollback(self, instant: str, *, force: bool = False) -> RolledBack:
        """Roll back a pending instant; `force` also takes it from a writer that is alive.

        That writer fails when it wants to commit. Commits that are completed stay: rolling one
        back is an `AlreadyCommitted`; `undo` takes the latest one back.

            >>> table.rollback(table.history()[0].instant)
            Traceback (most recent call last):
            hoodoo.errors.AlreadyCommitted: ...
        """
        from hoodoo.recovery.recover import roll_back

        return roll_back(self._ref, instant, force=force)
