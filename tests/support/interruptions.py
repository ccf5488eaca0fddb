"""What happens to a machine in the middle of its work: others act, or its store fails."""

from __future__ import annotations

import re
from collections.abc import Callable

from hoodoo.errors import StorageError
from support.writer_machines import Machine


def act_once_at(machine: Machine, verb: str, part: str, act: Callable[[], object]) -> None:
    """Something happens once, when the machine is about to do this."""

    def before(name: str, path: str) -> None:
        if re.fullmatch(verb, name) and re.search(part, path):
            machine.storage.leave_alone()
            act()

    machine.storage.before(before)


def fail_once_at(machine: Machine, verb: str, part: str) -> None:
    """The store refuses this once."""

    def refuse() -> None:
        raise StorageError(part, "the store asks to slow down")

    act_once_at(machine, verb, part, refuse)


def record_operations(machine: Machine) -> list[tuple[str, str]]:
    """What the machine does from now on: verbs with paths. The list grows."""
    operations: list[tuple[str, str]] = []
    machine.storage.before(lambda verb, path: operations.append((verb, path)))
    return operations
