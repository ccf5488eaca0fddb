"""File names, both ways."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import (
    BaseFileName,
    FileId,
    HistoryFileName,
    LogFileName,
    MarkerKind,
    MarkerName,
    WriteToken,
    instant_name,
    manifest_name,
    parse_base_file,
    parse_history_file,
    parse_instant,
    parse_log_file,
    parse_manifest,
    parse_marker,
    write_token,
)

TIMES = st.integers(0, 10**17 - 1).map(lambda number: InstantTime(f"{number:017d}"))
NUMBERS = st.integers(0, 10**6)
TOKENS = st.builds(write_token, partition=NUMBERS, stage=NUMBERS, attempt=NUMBERS)
FILE_IDS = st.from_regex(r"[A-Za-z0-9-]{1,40}", fullmatch=True).map(FileId)
R, C = InstantTime("20260307162557587"), InstantTime("20260307162601961")


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        (f"{R}.commit.requested", Action.COMMIT, State.REQUESTED),
        (f"{R}.inflight", Action.COMMIT, State.INFLIGHT),
        (f"{R}.deltacommit.inflight", Action.DELTA_COMMIT, State.INFLIGHT),
        (f"{R}.compaction.requested", Action.COMPACTION, State.REQUESTED),
        (f"{R}.savepoint.inflight", Action.SAVEPOINT, State.INFLIGHT),
        (f"{R}.clustering.aborted", Action.CLUSTERING, State.ABORTED),
    ],
)
@pytest.mark.parametrize("layout", [1, 2])
def test_pending_instants(name: str, action: Action, state: State, layout: int) -> None:
    instant = Instant(R, action, state)
    assert parse_instant(name, layout=layout) == instant
    assert instant_name(instant, layout=layout) == name


def test_completed_instants() -> None:
    done = Instant(R, Action.DELTA_COMMIT, State.COMPLETED, C)
    old = Instant(R, Action.DELTA_COMMIT, State.COMPLETED)
    assert instant_name(done, layout=2) == f"{R}_{C}.deltacommit"
    assert parse_instant(f"{R}_{C}.deltacommit", layout=2) == done
    assert instant_name(done, layout=1) == f"{R}.deltacommit"
    assert parse_instant(f"{R}.deltacommit", layout=1) == old
    assert parse_instant(f"{R}.deltacommit", layout=2) == old  # left by a broken upgrade
    assert parse_instant(f"{R}_{C}.deltacommit", layout=1) is None


@given(TIMES, st.sampled_from(Action), st.sampled_from(State), TIMES, st.sampled_from([1, 2]))
def test_instants_round_trip(
    requested: InstantTime, action: Action, state: State, completion: InstantTime, layout: int
) -> None:
    has_completion = state is State.COMPLETED and layout == 2
    instant = Instant(requested, action, state, completion if has_completion else None)
    parsed = parse_instant(instant_name(instant, layout=layout), layout=layout)
    if state is State.COMPLETED:
        action = action.completed_as
    assert parsed == Instant(requested, action, state, instant.completion_time)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "hoodie.properties",
        f"{R}",
        f"{R}.",
        f"{R}.commit.",
        f"{R}.magic",
        f"{R}.magic.requested",
        f"{R}.commit.later",
        f"{R}.requested",
        f"{R}_{C}.commit.requested",
        f"{R}_{C}.inflight",
        f"{R}.commit.7c5d5f6e-1111-4a6b-9c1e-0a1b2c3d4e5f",
        f".{R}.commit.crc",
        f"{R}.commit\n",
        f"{R}.COMMIT",
        "٣" * 17 + ".commit",
        "_version_",
    ],
)
def test_other_names_are_no_instants(name: str) -> None:
    assert parse_instant(name, layout=2) is None


@given(FILE_IDS, TOKENS, TIMES)
def test_base_files_round_trip(file_id: FileId, token: WriteToken, time: InstantTime) -> None:
    name = BaseFileName(file_id, token, time)
    assert parse_base_file(str(name)) == name
    assert parse_log_file(str(name)) is None


@given(FILE_IDS, TIMES, st.integers(1, 10**6), TOKENS | st.none(), st.booleans())
def test_log_files_round_trip(
    file_id: FileId, time: InstantTime, version: int, token: WriteToken | None, is_cdc: bool
) -> None:
    name = LogFileName(file_id, time, version, token, is_cdc)
    assert parse_log_file(str(name)) == name
    assert parse_base_file(str(name)) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "foo.parquet",
        "a_b.parquet",
        "a_b_c.parquet",
        "a_b_1.parquet.crc",
        ".a_b_1.parquet.crc",
        "a_b_1.csv",
        "a_b_1_2.parquet",
        "a b_c_1.parquet",
        "a_b_1.parquet\n",
        ".hoodie_partition_metadata",
        ".f_1.log.1_0-0",
        ".f_1.log.x_0-0-0",
        ".f_x.log.1_0-0-0",
        "f_1.log.1_0-0-0",
        ".f_1.log.1_0-0-0.crc",
        "..f_1.log.1_0-0-0.crc",
        ".commits_.archive.1_1-0-1",
    ],
)
def test_other_names_are_no_data_files(name: str) -> None:
    assert parse_base_file(name) is None
    assert parse_log_file(name) is None


def test_data_files_of_every_fixture(fixtures: Path) -> None:
    """Every name with .parquet or .log. is a data file, and comes back as it was."""
    bases = logs = 0
    for table in sorted((fixtures / "tables").glob("*/*.zip")):
        with ZipFile(table) as archive:
            for path in archive.namelist():
                folders, name = path.split("/")[:-1], path.split("/")[-1]
                if name.startswith("._") or name.endswith(".crc") or "history" in folders:
                    continue
                if ".log." in name:
                    assert str(parse_log_file(name)) == name, path
                    logs += 1
                elif name.endswith((".parquet", ".hfile")):
                    assert str(parse_base_file(name)) == name, path
                    bases += 1
    assert bases > 100
    assert logs > 100


@given(st.sampled_from(MarkerKind), FILE_IDS, TOKENS, TIMES)
def test_markers_round_trip(
    kind: MarkerKind, file_id: FileId, token: WriteToken, time: InstantTime
) -> None:
    marker = MarkerName(f"event_date=1/{BaseFileName(file_id, token, time)}", kind)
    assert parse_marker(str(marker)) == marker


def test_other_names_are_no_markers() -> None:
    for name in ("", ".marker.CREATE", "f.marker.create", "f.marker.CREATE.crc", "MARKERS.type"):
        assert parse_marker(name) is None


@given(TIMES, TIMES, st.integers(0, 9))
def test_history_files_round_trip(first: InstantTime, last: InstantTime, layer: int) -> None:
    name = HistoryFileName(first, last, layer)
    assert parse_history_file(str(name)) == name


def test_other_names_are_no_history_files() -> None:
    for name in ("", "_version_", "1_2.parquet", "1_2_3.parquet.crc", "1_2_10.parquet", "a_2_3"):
        assert parse_history_file(name) is None


def test_manifests() -> None:
    assert manifest_name(12) == "manifest_12"
    assert parse_manifest("manifest_12") == 12
    for name in ("manifest_", "manifest_x", ".manifest_1.crc", "manifest_1 ", "manifest_1\n"):
        assert parse_manifest(name) is None


def test_write_token() -> None:
    assert write_token(partition=1, stage=2, attempt=3) == "1-2-3"
