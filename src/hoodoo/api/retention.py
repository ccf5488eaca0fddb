"""What users ask of a table about the past that it keeps: a part of `hoodoo.api.Table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.api.handle import TableCalls

if TYPE_CHECKING:
    from hoodoo.services.archive.archive import ArchiveResult
    from hoodoo.services.clean.clean import CleanResult
    from hoodoo.services.restore.restore import RestoreResult
    from hoodoo.services.savepoints import Savepoint


class TableRetention(TableCalls):
    """`table.retention`: clean, archive, savepoints, restore."""

    def undo(self, instant: str, *, wait: bool = True) -> RestoreResult:
        """Take the latest completed commit back; `instant` names it, so that no other one goes.

        Nobody else may be writing. A commit younger than two expiries of heartbeats is waited for,
        or refused without `wait`: until then a late message could bring it back.

            >>> table.undo(table.history()[0].instant, wait=False)
            Traceback (most recent call last):
            hoodoo.errors.TimelineError: ...
        """
        from hoodoo.services.restore.restore import roll_back_latest

        return roll_back_latest(self._ref, self._engine, instant, wait=wait)

    def restore(self, instant: str, *, wait: bool = True) -> RestoreResult:
        """Take the table back to a commit; later ones are gone for good. The rest as of `undo`.

        >>> kept = table.savepoint().instant
        >>> table.restore(kept).instants
        ()
        """
        from hoodoo.services.restore.restore import restore

        return restore(self._ref, self._engine, instant, wait=wait)

    def clean(self) -> list[CleanResult]:
        """Delete versions of files that are no longer promised to anyone.

        >>> table.clean()
        []
        """
        from hoodoo.services.clean.clean import clean

        return clean(self._ref, self._engine)

    def archive(self) -> ArchiveResult:
        """Move old instants from the active timeline into the history.

        >>> table.archive().instants
        ()
        """
        from hoodoo.services.archive.archive import archive

        return archive(self._ref, self._engine)

    def savepoint(
        self, instant: str | None = None, *, user: str = "", comment: str = ""
    ) -> Savepoint:
        """Keep the table as of a commit, the latest one unless told.

        >>> table.savepoint(comment="before the big load").comment
        'before the big load'
        """
        from hoodoo.services.savepoints import create_savepoint

        return create_savepoint(self._ref, instant, user=user, comment=comment)

    def delete_savepoint(self, instant: str) -> None:
        """Let go of what a savepoint keeps.

        >>> table.delete_savepoint(table.savepoint().instant)
        """
        from hoodoo.services.savepoints import delete_savepoint

        delete_savepoint(self._ref, instant)

    def savepoints(self) -> list[Savepoint]:
        """The savepoints, oldest first.

        >>> table.savepoints()
        []
        """
        from hoodoo.services.savepoints import list_savepoints

        return list_savepoints(self._ref)
