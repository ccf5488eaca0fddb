"""What the calls of one table share: the table, the engine, and how a call is handed on.

`Table` and its groups (`table.services`, `table.indexes`, ...) are `TableCalls` over one
`TableHandle`, so that all of them see the table that `Table.upgrade` opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef

Arguments = ParamSpec("Arguments")
Group = TypeVar("Group")
Owner = TypeVar("Owner")
Value = TypeVar("Value")


class TableHandle:
    """An open table, and the engine that works on its files unless a call names a session."""

    def __init__(self, ref: TableRef, engine: Engine) -> None:
        self.ref = ref
        self.engine = engine

    def engine_on(self, spark: Any) -> Engine:
        """Return the engine of a Spark session; without one, the engine of this process."""
        if spark is None:
            return self.engine
        from hoodoo.spark.engine import engine_on

        return engine_on(spark, self.ref)


class TableCalls:
    """Calls on one table."""

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    @property
    def _ref(self) -> TableRef:
        return self._handle.ref

    @property
    def _engine(self) -> Engine:
        return self._handle.engine

    def _engine_on(self, spark: Any) -> Engine:
        return self._handle.engine_on(spark)


def delegate(
    group: Callable[[Owner], Group], method: Callable[Concatenate[Group, Arguments], Value]
) -> Callable[Concatenate[Owner, Arguments], Value]:
    """Return a method that calls `method` of a group: one signature and docstring for both."""

    @wraps(method)
    def call(self: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return method(group(self), *args, **kwargs)

    return call
