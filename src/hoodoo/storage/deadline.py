"""Until when a write may be begun: what publishes must not leave long after it was checked."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from hoodoo.errors import StorageError


def monotonic() -> float:
    """Seconds that also count while the machine is suspended: leases run out meanwhile."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock; `math.inf` is never."""

    at: float = math.inf

    @classmethod
    def within(cls, seconds: float | None) -> Deadline:
        """So long after now; None is never."""
        return NEVER if seconds is None else cls(monotonic() + seconds)

    def left_s(self) -> float:
        """How long it is until then; negative once it has passed."""
        return self.at - monotonic() if self.at < math.inf else math.inf

    def check(self, path: str) -> None:
        """Refuse to begin a write too late. Raises plain `StorageError`: nothing was done."""
        if self.left_s() < 0:
            raise StorageError(path, "not written: the time for it ran out before it was sent")


NEVER = Deadline()
