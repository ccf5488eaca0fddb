"""Short random histories of tables that hoodoo and Apache Hudi share: `make test-random-hudi`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from compat.histories import HistoryFailed, run_history
from compat.history_steps import ZONES, Setting, draw_setting, draw_steps
from compat.peer_client import Peer
from pyspark.sql import SparkSession

STEPS = 8
UTC = "UTC"


def in_utc(seed: int) -> Setting:
    """The setting of a seed where the one Apache Hudi of these tests is."""
    return draw_setting(seed)._replace(zone=UTC)


@pytest.mark.parametrize("seed", [0, 3])  # of Hudi's and MOR, of ours and COW
def test_readers_agree_with_the_model(
    hudi: Peer, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    run_history(in_utc(seed), STEPS, dict.fromkeys([UTC, *ZONES], hudi), spark, tmp_path / "t")


def test_a_failure_tells_how_to_repeat_it(
    hudi: Peer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same history with a reader that misses a row, in the place of a bug."""
    monkeypatch.setattr("compat.history_run.wheel_rows", lambda place: [])
    with pytest.raises(HistoryFailed, match=r"(?s)in the model, not read.*SEED=0 N=1 STEPS=1"):
        run_history(in_utc(0), 1, {UTC: hudi}, spark, tmp_path / "t")


def test_same_seed_gives_same_steps() -> None:
    setting = draw_setting(5)
    assert list(islice(draw_steps(setting), 40))[:9] == list(islice(draw_steps(setting), 9))


def test_eight_seeds_are_all_kinds_of_tables() -> None:
    settings = [draw_setting(seed) for seed in range(17, 25)]
    assert len({(one.kind, one.maker, one.zone) for one in settings}) == 8
