"""The life of a table: what it holds is right at all times, and what it costs stays bounded."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.wheel import wheel_rows

from hoodoo.storage.memory import MemoryStorage
from life.cost_over_commits import ends, live_flat, total
from life.life import KINDS, OFF, Course, Life, Model, Sample
from life.plot import PANELS, draw

pytestmark = pytest.mark.slow

MOST_INSTANTS, MOST_OBJECTS = 70, 500
"""Of tables with 400 keys in two partitions, at any time."""


def check_bounds(samples: Sequence[Sample]) -> None:
    assert max(sample.instants for sample in samples) <= MOST_INSTANTS
    assert max(sample.files for sample in samples) <= MOST_OBJECTS


class Wheel:
    """Another engine that reads the table, as it lies in the store, from local disk."""

    def __init__(self, place: Path, every: int) -> None:
        self.place = place
        self.every = every
        self.calls = 0
        self.reads = 0

    def __call__(self, store: MemoryStorage, may_be: Sequence[Model]) -> None:
        self.calls += 1
        if len(may_be) == 1 and self.calls % self.every:
            return
        shutil.rmtree(self.place, ignore_errors=True)
        for entry in store.list("", recursive=True):
            path = self.place / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.read(entry.path))
        found = wheel_rows(self.place)
        rows = {row["id"]: row["v"] for row in found}
        assert len(rows) == len(found)
        assert rows in may_be
        self.reads += 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_short_life_with_crashes_is_right_and_bounded(kind: str, tmp_path: Path) -> None:
    life = Life(kind, Course(65, crash_rate=0.15, seed=3))
    life.witness = wheel = Wheel(tmp_path / "t", every=9)
    for _ in life.live():
        pass
    check_bounds(life.samples)
    assert life.crashes >= 3
    assert wheel.reads >= 10
    assert life.failures == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_life_with_crashes_is_right_and_bounded(kind: str) -> None:
    life = Life(kind, Course(2000))
    for _ in life.live():
        pass
    check_bounds(life.samples)
    early, late = life.samples[100:500], life.samples[-400:]
    for what in ("upsert_s", "read_s"):
        assert total(late, what) <= 1.5 * total(early, what)
    assert max(s.megabytes for s in late) <= 1.5 * max(s.megabytes for s in early)
    assert life.crashes >= 50
    assert life.failures == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_cost_per_commit_stays_constant_over_many_commits(kind: str) -> None:
    first, last = ends(live_flat(kind, {}, 200, rows=20_000, changed=500))
    for what in ("upsert_s", "read_s"):
        assert total(last, what) <= 1.3 * total(first, what)


def test_without_services_a_table_grows_on_and_on() -> None:
    samples = live_flat("cow", OFF, 30, rows=500, changed=50)
    assert samples[-1].megabytes > 1.5 * samples[10].megabytes
    assert samples[-1].instants == 31


def test_a_life_is_drawn_with_a_line_for_each_table_and_figure() -> None:
    samples = [Sample(n, n, n / 10, 0, 0.01, 0.002 * n) for n in range(500)]
    drawn = draw({"one": samples, "two": samples[:250]}, "lives")
    assert drawn.count('stroke-width="1.5"') == 2 * len(PANELS)
    assert all(panel.title in drawn for panel in PANELS)
