"""Runs a function in a process of its own, which may use so much time and memory and no more."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PAGE = resource.getpagesize()
_START_S = 60.0

# A server that has imported the package, so that each process starts at once. No threads run in
# it, unlike in the process of the tests, which must not be forked for that reason.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["hoodoo", "pyarrow.parquet"])


@dataclass(frozen=True)
class Outcome:
    """How the function ended: by itself or not, with which value or error."""

    ended: bool
    value: Any = None
    error: type[BaseException] | None = None
    text: str = ""


def run_bounded(
    function: Callable[..., Any],
    *arguments: object,
    cpu_s: int = 20,
    wall_s: float = 40.0,
    memory_bytes: int | None = None,
) -> Outcome:
    """Call a function of a module; `memory_bytes` come on top of what it begins with.

    Where the time is up, the kernel ends the process. Where memory is, the call gets a
    `MemoryError`, or what the libraries make of it.
    """
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(
        target=_call, args=(there, function, arguments, cpu_s, wall_s, memory_bytes), daemon=True
    )
    process.start()
    there.close()
    try:
        process.join(_START_S + wall_s)
        outcome: Outcome = here.recv() if here.poll() else Outcome(ended=False)
        return outcome
    except EOFError:
        return Outcome(ended=False, text=f"exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()
        here.close()


def _call(
    answer: Connection,
    function: Callable[..., Any],
    arguments: tuple[object, ...],
    cpu_s: int,
    wall_s: float,
    memory_bytes: int | None,
) -> None:
    used_s = resource.getrusage(resource.RUSAGE_SELF)
    spent_s = int(used_s.ru_utime + used_s.ru_stime)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (spent_s + cpu_s, spent_s + cpu_s + 1))
    if memory_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * _PAGE + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, wall_s)
    try:
        value = function(*arguments)
    except BaseException as error:
        # The error holds on to what was allocated, and there must be room to tell of it.
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        outcome = Outcome(ended=True, error=type(error), text=str(error)[:500])
    else:
        outcome = Outcome(ended=True, value=value)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer.send(outcome)
