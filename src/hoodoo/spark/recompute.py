"""Whether rows may be computed again rather than kept.

A write looks at its rows two or three times: to count them, for their keys, to write them. To keep
millions of rows for that costs far more than to read a few columns of columnar files once more.
Whatever else they come from (joins, functions, databases) is asked once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

_STEPS = {"Project", "Filter", "Union", "Repartition"}
_FORMATS = {"ParquetFileFormat", "OrcFileFormat"}


def is_cheap(rows: DataFrame) -> bool:
    """Whether rows come straight from columnar files, and are the same every time."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    try:
        return bool(plan.deterministic()) and all(_reads_files(node) for node in _nodes(plan))
    except Py4JError:  # a node that is unlike those we know
        return False


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _reads_files(node: Any) -> bool:
    name = node.getClass().getSimpleName()
    if name != "LogicalRelation":
        return name in _STEPS
    relation = node.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    return relation.fileFormat().getClass().getSimpleName() in _FORMATS
