"""Which classes the calls of the interface return, found by their annotations.

Annotations are texts, and many name classes that are imported for the type checker only: the
imports of the module tell where such a class is.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import Any


def results_of(call: Any) -> list[type]:
    """The dataclasses of hoodoo that a call returns."""
    function = getattr(call, "fget", None) or getattr(call, "func", None) or call
    function = inspect.unwrap(function)
    annotation = function.__annotations__.get("return", "")
    return _classes_in(str(annotation), function.__module__)


def reachable(kinds: Iterable[type]) -> tuple[type, ...]:
    """These dataclasses, and those that their fields hold, each once."""
    found: dict[type, None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if kind in found:
            continue
        found[kind] = None
        for _, annotation in fields(kind):
            waiting += _classes_in(annotation, kind.__module__)
    return tuple(found)


def fields(kind: type) -> list[tuple[str, str]]:
    """Name and type of each field."""
    return [(field.name, str(field.type)) for field in dataclass_fields(kind)]


def _classes_in(annotation: str, module: str) -> list[type]:
    names = re.findall(r"\b[A-Z]\w+", annotation)
    found = (_find(name, module) for name in names)
    return [kind for kind in found if kind is not None]


def _find(name: str, module: str) -> type | None:
    """The dataclass of hoodoo that a name means in a module."""
    kind = getattr(sys.modules[module], name, None)
    if kind is None and name in _imports(module):
        kind = getattr(import_module(_imports(module)[name]), name, None)
    is_ours = inspect.isclass(kind) and kind.__module__.startswith("hoodoo.")
    return kind if is_ours and is_dataclass(kind) else None


@cache
def _imports(module: str) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
