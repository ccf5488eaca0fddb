"""The first error that a task of a stage returns, known to the driver while the others run.

Tasks return what trying again cannot mend, so that Spark does not try again; but the driver sees
results only when the whole stage has ended. An accumulator tells it when the task ends, and the job
is cancelled at once.
"""

from __future__ import annotations

from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam

from hoodoo.engine.stop import Stop
from hoodoo.errors import HoodooError

Errors = Accumulator[HoodooError | None]


class _FirstError(AccumulatorParam[HoodooError | None]):
    """Keeps the first error, and tells whoever waits for one in this process."""

    def __init__(self, stop: Stop | None = None) -> None:
        self._stop = stop

    def __reduce__(self) -> tuple[object, ...]:
        return (_FirstError, ())  # in workers nobody waits

    def zero(self, value: HoodooError | None) -> HoodooError | None:
        return None

    def addInPlace(  # noqa: N802  # the name is Spark's
        self, value1: HoodooError | None, value2: HoodooError | None
    ) -> HoodooError | None:
        if value2 is not None and self._stop is not None:
            self._stop.request(value2)
        return value1 or value2


def watch_for_errors(context: SparkContext, stop: Stop) -> Errors:
    """Where tasks put their errors; the first one ends the work by the `Stop`."""
    return context.accumulator(None, _FirstError(stop))
