"""Short random histories of tables that hoodoo and Apache Hudi share; see `make histories`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from histories import HistoryFailed, run_history
from history_steps import ZONES, draw_setting, draw_steps
from peer_client import Peer
from pyspark.sql import SparkSession

STEPS = 8


@pytest.fixture(scope="module")
def hudi_there(
    installed_hudi: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """An Apache Hudi whose JVM is in New York, for tables in local time alone.

    Hudi waits until its clock shows a later time than the last instant of the process, whatever
    table that was in: after a table in UTC it would wait for hours.
    """
    peer = Peer(installed_hudi, tmp_path_factory.mktemp("hudi-there"), zone="America/New_York")
    yield peer
    peer.close()


def test_table_of_hudis_in_local_time(
    hudi_there: Peer, spark: SparkSession, tmp_path: Path
) -> None:
    run_history(0, STEPS, {"America/New_York": hudi_there}, spark, tmp_path / "t")


def test_table_of_ours(hudi: Peer, spark: SparkSession, tmp_path: Path) -> None:
    # Such tables are in UTC, wherever Hudi runs.
    run_history(3, STEPS, dict.fromkeys(ZONES, hudi), spark, tmp_path / "t")


def test_a_failure_tells_how_to_repeat_it(
    hudi_there: Peer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same history with a reader that misses a row, in the place of a bug."""
    monkeypatch.setattr("history_run.wheel_rows", lambda place: [])
    with pytest.raises(HistoryFailed, match=r"(?s)in the model, not read.*SEED=0 N=1 STEPS=1"):
        run_history(0, 1, {"America/New_York": hudi_there}, spark, tmp_path / "t")


def test_same_seed_gives_same_steps() -> None:
    setting = draw_setting(5)
    assert list(islice(draw_steps(setting), 40))[:9] == list(islice(draw_steps(setting), 9))


def test_eight_seeds_are_all_kinds_of_tables() -> None:
    settings = [draw_setting(seed) for seed in range(17, 25)]
    assert len({(one.kind, one.maker, one.zone) for one in settings}) == 8
