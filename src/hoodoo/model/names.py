"""Every file name that means something, both ways: text -> value and value -> text.

    <r>.<action>.requested   <r>.<action>.inflight   <r>_<c>.<action>     instants, layout 2
    <r>.inflight                                                          inflight commit
    <r>.<action>                                                          completed, layout 1
    <fileId>_<token>_<r>.parquet                                          base file
    .<fileId>_<r>.log.<version>_<token>[.cdc]                             log file
    <data file name>.marker.<CREATE|MERGE|APPEND>                         marker
    <minR>_<maxR>_<layer>.parquet   manifest_<n>                          archived timeline

`parse_*` returns None for a name that is not of its kind: foreign files are common.

What is on disk, and what commands print with `--json`, keeps its names in JSON when a field of the
code gets a better one: `field(metadata=named_in_json("misses"))`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from enum import Enum
from hashlib import sha1
from itertools import repeat
from typing import Any, NamedTuple, NewType

from hoodoo.model.instant import Action, Instant, InstantTime, State

# -- names of files --------------------------------------------------------------------------------


FileId = NewType("FileId", str)
WriteToken = NewType("WriteToken", str)

BASE_FILE_EXTENSION = ".parquet"

_INSTANT = re.compile(r"(\d+)(?:_(\d+))?\.([a-z]+)(?:\.([a-z]+))?\Z", re.ASCII)
_BASE_PATTERN = r"([A-Za-z0-9-]+)_([A-Za-z0-9-]+)_(\d+)(\.(?:parquet|orc|hfile|lance))"
_LOG_PATTERN = r"\.(.+)_(\d+)\.log\.(\d+)(?:_(\d+-\d+-\d+))?(\.cdc)?"
_BASE = re.compile(rf"{_BASE_PATTERN}\Z", re.ASCII)
_LOG = re.compile(rf"{_LOG_PATTERN}\Z", re.ASCII)
# The same for names that are the lines of a text; no part of them matches the end of a line.
_BASE_LINES = re.compile(rf"^{_BASE_PATTERN}$", re.ASCII | re.MULTILINE)
_LOG_LINES = re.compile(rf"^{_LOG_PATTERN}$", re.ASCII | re.MULTILINE)
_MARKER = re.compile(r"(.+)\.marker\.(CREATE|MERGE|APPEND)\Z")
_HISTORY_FILE = re.compile(r"(\d+)_(\d+)_(\d)\.parquet\Z", re.ASCII)
_MANIFEST = re.compile(r"manifest_(\d+)\Z", re.ASCII)

_ACTIONS = {action.value: action for action in Action}


def parse_instant(name: str, *, layout: int) -> Instant | None:
    """The instant that a timeline file name stands for."""
    match = _INSTANT.match(name)
    if match is None:
        return None
    requested_time = InstantTime(match[1])
    completion, word, suffix = match[2], match[3], match[4]
    if suffix is None:
        if word == "inflight":
            return None if completion else Instant(requested_time, Action.COMMIT, State.INFLIGHT)
        action = _ACTIONS.get(word)
        if action is None or (completion is not None and layout == 1):
            return None
        completion_time = InstantTime(completion) if completion else None
        return Instant(requested_time, action, State.COMPLETED, completion_time)
    action = _ACTIONS.get(word)
    if action is None or completion is not None:
        return None
    if suffix in ("requested", "inflight", "aborted"):
        return Instant(requested_time, action, State(suffix))
    return None


def instant_name(instant: Instant, *, layout: int) -> str:
    """The timeline file name of an instant in its state."""
    requested_time, action = instant.requested_time, instant.action.value
    if instant.state is not State.COMPLETED:
        if instant.action is Action.COMMIT and instant.state is State.INFLIGHT:
            return f"{requested_time}.inflight"
        return f"{requested_time}.{action}.{instant.state.value}"
    action = instant.action.completed_as.value
    if layout == 1 or instant.completion_time is None:
        return f"{requested_time}.{action}"
    return f"{requested_time}_{instant.completion_time}.{action}"


class BaseFileName(NamedTuple):
    """Parts of a base file's name."""

    file_id: FileId
    token: WriteToken
    requested_time: InstantTime
    extension: str = BASE_FILE_EXTENSION

    def __str__(self) -> str:
        return f"{self.file_id}_{self.token}_{self.requested_time}{self.extension}"


def parse_base_file(name: str) -> BaseFileName | None:
    """Parts of a base file's name, or None."""
    match = _BASE.match(name)
    if match is None:
        return None
    return BaseFileName(FileId(match[1]), WriteToken(match[2]), InstantTime(match[3]), match[4])


def parse_base_files(names: Sequence[str]) -> list[BaseFileName] | None:
    """Parts of each of the base files' names; None if any of them is another file's."""
    matches = _match_lines(_BASE_LINES, names)
    return None if matches is None else list(map(tuple.__new__, repeat(BaseFileName), matches))


class LogFileName(NamedTuple):
    """Parts of a log file's name. Layout 1 keeps the base instant where 2 has the writer's."""

    file_id: FileId
    instant_time: InstantTime
    version: int
    token: WriteToken | None
    is_cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.token}" if self.token else ""
        cdc = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant_time}.log.{self.version}{token}{cdc}"


def parse_log_file(name: str) -> LogFileName | None:
    """Parts of a log file's name, or None."""
    match = _LOG.match(name)
    if match is None:
        return None
    token = WriteToken(match[4]) if match[4] else None
    return LogFileName(
        FileId(match[1]), InstantTime(match[2]), int(match[3]), token, match[5] is not None
    )


def parse_log_files(names: Sequence[str]) -> list[LogFileName] | None:
    """Parts of each of the log files' names; None if any of them is another file's."""
    matches = _match_lines(_LOG_LINES, names)
    if matches is None:
        return None
    return [
        LogFileName(FileId(file_id), InstantTime(time), int(version), token or None, bool(cdc))
        for file_id, time, version, token, cdc in matches
    ]


def _match_lines(pattern: re.Pattern[str], names: Sequence[str]) -> list[Any] | None:
    """The groups of the pattern for each name, in one pass over all; None if one is different."""
    if not names:
        return []
    text = "\n".join(names)
    matches = pattern.findall(text)
    is_each = len(matches) == len(names) == text.count("\n") + 1
    return matches if is_each else None


class MarkerKind(Enum):
    """What the writer was about to do with the file that a marker announces."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True, slots=True)
class MarkerName:
    """A marker announces a data file; `data_file` may hold a partition path in front."""

    data_file: str
    kind: MarkerKind

    def __str__(self) -> str:
        return f"{self.data_file}.marker.{self.kind.value}"


def parse_marker(name: str) -> MarkerName | None:
    """Parts of a marker's name, or None."""
    match = _MARKER.match(name)
    return MarkerName(match[1], MarkerKind(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class HistoryFileName:
    """One file of the archived timeline: the instants from `first` to `last`."""

    first: InstantTime
    last: InstantTime
    layer: int

    def __str__(self) -> str:
        return f"{self.first}_{self.last}_{self.layer}.parquet"


def parse_history_file(name: str) -> HistoryFileName | None:
    """Parts of an archived-timeline file's name, or None."""
    match = _HISTORY_FILE.match(name)
    if match is None:
        return None
    return HistoryFileName(InstantTime(match[1]), InstantTime(match[2]), int(match[3]))


def manifest_name(number: int) -> str:
    """The name of snapshot `number` of the archived timeline."""
    return f"manifest_{number}"


def parse_manifest(name: str) -> int | None:
    """The snapshot number in a manifest's name, or None."""
    match = _MANIFEST.match(name)
    return int(match[1]) if match else None


def write_token(*, partition: int, stage: int, attempt: int) -> WriteToken:
    """Three numbers that tell the attempts of one file apart; every parser wants three."""
    return WriteToken(f"{partition}-{stage}-{attempt}")


def derived_uuid(seed: str, name: str) -> str:
    """A name-based uuid (version 5): whoever derives it from the same texts gets the same one."""
    digest = bytearray(sha1(f"{seed}/{name}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def new_file_id(write_id: str, name: object) -> FileId:
    """The id of a file group that a write makes; each attempt of the same task derives the same."""
    return FileId(f"{derived_uuid(write_id, str(name))}-0")


# -- names of fields in JSON -----------------------------------------------------------------------


def named_in_json(name: str) -> Mapping[str, str]:
    """Metadata of a field that has another name in JSON."""
    return {"json": name}


def json_name(field: Field[Any]) -> str:
    """The name of a field in JSON: its own, unless it says otherwise."""
    return str(field.metadata.get("json", field.name))
