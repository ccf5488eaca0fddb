"""Faults that befall the Python workers of a Spark cluster while they make a table's files.

A test lays a plan beside a table, in `<table>.faults`. A worker that runs under `fault_daemon`
looks into it whenever it writes to a file of the table, or publishes one; each fault happens to
the first who comes to its moment, and to nobody else. The code that is tested knows nothing of it.
What happened, and in which attempts of which tasks, is in a journal beside the plan.

Moments: `write`: a part of the file is written, and more is to come; `publish`: it is complete, and
nobody sees it yet; `published`: it is there.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from hoodoo.errors import ObjectExists
from hoodoo.storage.local import LocalStorage, LocalWrite
from hoodoo.storage.storage import ObjectInfo
from support.processes import Journal, until

DATA = r"^(?!\.hoodie/).*(\.parquet|\.log\.\d+_[\d-]+)$"
"""Paths of data files."""
LOG = r"\.log\.\d+_[\d-]+$"
COMPLETION = r"^\.hoodie/\.aux/hoodoo/completion/"
LONGEST_WAIT_S = 180.0


@dataclass(frozen=True)
class Fault:
    """What happens to the first worker that comes to `moment` with a file like `path`.

    `same_as` names a fault: this one is only for the attempt that the other one happened to;
    `twin_of`: only for another attempt of the same task.
    """

    name: str
    act: str
    moment: str
    path: str = DATA
    same_as: str = ""
    twin_of: str = ""


class Faults:
    """The plan and the journal of a table."""

    def __init__(self, table: Path) -> None:
        self._place = table.with_name(f"{table.name}.faults")
        self.journal = Journal(self._place / "journal")

    def lay(self, *faults: Fault) -> None:
        """Plan these; all before are off, and what they left is forgotten."""
        self._place.mkdir(exist_ok=True)
        for left in self._place.iterdir():
            left.unlink()
        draft = self._place / "draft"
        draft.write_text(json.dumps([asdict(fault) for fault in faults]))
        draft.rename(self._place / "plan")

    def planned(self) -> list[Fault]:
        """What may still happen."""
        try:
            listed = json.loads((self._place / "plan").read_text())
        except FileNotFoundError:
            return []
        return [Fault(**each) for each in listed]

    def happened(self, name: str) -> dict[str, Any] | None:
        """To which attempt of which task a fault happened."""
        return next((e for e in self.journal.entries() if e.get("fault") == name), None)

    def claim(self, name: str) -> bool:
        """Whether the caller is the first who asks."""
        try:
            os.close(os.open(self._place / f"{name}.fired", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def release(self, name: str) -> None:
        """Let whoever waits because of a fault go on."""
        (self._place / f"{name}.released").touch()

    def is_released(self, name: str) -> bool:
        return (self._place / f"{name}.released").exists()

    def events(self, word: str, path: str = "") -> list[dict[str, Any]]:
        """What the journal has under a word, of files with paths like this."""
        entries = self.journal.entries()
        return [e for e in entries if e["word"] == word and re.search(path, e["path"])]


# -- in the workers ---------------------------------------------------------------------------


def arm() -> None:
    """Let the files that this process makes, and those that it forks, meet their faults."""
    write, publish, delete = LocalWrite.write, LocalWrite.publish, LocalStorage.delete

    def faulty_write(file: LocalWrite, data: bytes | memoryview) -> int:
        if file.tell():
            _meet(file, "write")
        return write(file, data)

    def faulty_publish(file: LocalWrite) -> ObjectInfo:
        _meet(file, "publish")
        try:
            made = publish(file)
        except ObjectExists:
            _note(_root(file), file._path, "refused")
            raise
        _note(_root(file), file._path, "published")
        _meet(file, "published")
        return made

    def noted_delete(storage: LocalStorage, path: str) -> None:
        delete(storage, path)
        _note(storage._root, path, "deleted")

    LocalWrite.write = faulty_write
    LocalWrite.publish = faulty_publish
    LocalStorage.delete = noted_delete


def _meet(file: LocalWrite, moment: str) -> None:
    faults = Faults(Path(_root(file)))
    for fault in faults.planned():
        if (
            fault.moment == moment
            and re.search(fault.path, file._path)
            and _is_for_me(faults, fault)
            and faults.claim(fault.name)
        ):
            _note(_root(file), file._path, fault.act, fault=fault.name)
            _ACTS[fault.act](faults, fault, file)


def _is_for_me(faults: Faults, fault: Fault) -> bool:
    if not fault.same_as and not fault.twin_of:
        return True
    other, me = faults.happened(fault.same_as or fault.twin_of), task_facts()
    if other is None:
        return False
    if fault.same_as:
        return me["task"] == other["task"]
    places = [(each["stage"], each["partition"]) for each in (me, other)]
    return places[0] == places[1] and me["task"] != other["task"]


def _kill_executor(faults: Faults, fault: Fault, file: LocalWrite) -> None:
    if not file.closed:
        file._draft.file.flush()
    os.kill(executor_pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_worker(faults: Faults, fault: Fault, file: LocalWrite) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(faults: Faults, fault: Fault, file: LocalWrite) -> None:
    until(
        f"{fault.name} is released",
        lambda: faults.is_released(fault.name),
        within_s=LONGEST_WAIT_S,
    )
    _note(_root(file), file._path, "resumed")


def _lose_shuffle(faults: Faults, fault: Fault, file: LocalWrite) -> None:
    """Those of all executors: nobody knows which of them wrote what this stage reads."""
    mine = Path(os.environ["SPARK_LOCAL_DIRS"])  # spark-<worker>/executor-<id>/blockmgr-<id>
    for shuffled in mine.parents[2].rglob("shuffle_*"):
        shuffled.unlink(missing_ok=True)


_ACTS: Mapping[str, Callable[[Faults, Fault, LocalWrite], None]] = {
    "kill_executor": _kill_executor,
    "kill_worker": _kill_worker,
    "wait": _wait,
    "lose_shuffle": _lose_shuffle,
}


def _root(file: LocalWrite) -> str:
    return file._target.removesuffix(f"/{file._path}")


def _note(root: str, path: str, word: str, **facts: object) -> None:
    journal = Faults(Path(root)).journal
    if journal.path.parent.exists():
        journal.note(word, path=path, **task_facts(), **facts)


def task_facts() -> dict[str, object]:
    """Which attempt of which task this is; `task` is unique in the application."""
    context = TaskContext.get()
    if context is None:
        return {"task": None, "stage": None, "partition": None, "pid": os.getpid()}
    return {
        "task": context.taskAttemptId(),
        "stage": context.stageId(),
        "partition": context.partitionId(),
        "pid": os.getpid(),
    }


def executor_pid() -> int:
    """The JVM that started this Python worker, or the worker before it."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def watched(rows: DataFrame, table: Path) -> DataFrame:
    """The same rows; the journal of the table tells which tasks computed them."""
    journal = Faults(table).journal

    def watch(batches: Iterable[Any]) -> Iterator[Any]:
        journal.note("source", path="", **task_facts())
        yield from batches

    return rows.mapInArrow(watch, rows.schema)
