"""A store whose answers to writes get lost, before or after they landed, or land late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TypeVar

from hoodoo.errors import OutcomeUnknown, StorageError
from hoodoo.storage.storage import ObjectInfo, Storage
from hoodoo.storage.traced import TracedStorage

Result = TypeVar("Result")


class Loss(Enum):
    """What becomes of a write whose answer is lost."""

    LANDED = "landed"
    NEVER = "never"
    LATE = "late"


class LossyStorage(TracedStorage):
    """Loses the answers of the next writes, in the order of `losses`; None keeps one."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner, before=lambda verb, path: self.before(verb, path))
        self.before: Callable[[str, str], None] = lambda verb, path: None
        self.losses: list[Loss | None] = []
        self._under_way: list[Callable[[], object]] = []

    def land(self) -> None:
        """Let the writes land that are under way; what they are answered, nobody hears."""
        while self._under_way:
            with suppress(StorageError):
                self._under_way.pop(0)()

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        create = partial(super().create, path, data, within_s=within_s)
        return self._lose(path, create)

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        replace = partial(super().replace, path, data, if_match=if_match, within_s=within_s)
        return self._lose(path, replace)

    def delete(self, path: str) -> None:
        self._lose(path, lambda: super(LossyStorage, self).delete(path))

    def _lose(self, path: str, write: Callable[[], Result]) -> Result:
        loss = self.losses.pop(0) if self.losses else None
        match loss:
            case None:
                return write()
            case Loss.LANDED:
                write()
            case Loss.LATE:
                self._under_way.append(write)
        raise OutcomeUnknown(path)
