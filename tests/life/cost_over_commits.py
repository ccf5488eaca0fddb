"""What the last commits of many cost, against the first: with services, and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from life.life import KINDS, OFF, Course, Life, Sample

COMMITS, WARM_UP, ENDS = 200, 10, 10
_DEFAULTS = {"hoodie.clustering.inline": False, "hoodie.log.compaction.inline": False}


def compare_ends(*, rows: int = 100_000, changed: int = 1_000) -> None:
    """Print the ratios: copy-on-write and merge-on-read, services on and off."""
    for kind in ("cow", "mor"):
        for name, options in (("on", {}), ("off", OFF)):
            samples = live_flat(kind, options, COMMITS, rows=rows, changed=changed)
            print(f"{kind}, services {name}: {describe(samples)}", flush=True)


def live_flat(
    kind: str, options: Mapping[str, object], commits: int, *, rows: int, changed: int
) -> Sequence[Sample]:
    """Updates of a table that has all its rows from the start; nothing crashes."""
    assert kind in KINDS
    course = Course(
        commits,
        keys=rows,
        rows=changed,
        crash_rate=0,
        delete_rate=0,
        upkeep_every=0,
        checks_every=50,
    )
    life = Life(kind, course, {**_DEFAULTS, **options})
    life.fill()
    for _ in life.live():
        pass
    return life.samples


def ends(samples: Sequence[Sample]) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The first ones after the warm-up, and the last ones."""
    return samples[WARM_UP : WARM_UP + ENDS], samples[-ENDS:]


def total(samples: Sequence[Sample], what: str) -> float:
    return sum(getattr(sample, what) for sample in samples)


def describe(samples: Sequence[Sample]) -> str:
    """Ratios of CPU, and how the table grew."""
    first, last = ends(samples)
    told = []
    for what in ("upsert_s", "read_s"):
        ratio = total(last, what) / total(first, what)
        each = [median(getattr(s, what) for s in part) * 1000 for part in (first, last)]
        told.append(f"{what[:-2]} {ratio:.2f}x (median {each[0]:.0f} to {each[1]:.0f} ms)")
    sizes = [max(s.megabytes for s in part) for part in (first, last)]
    instants = [max(s.instants for s in part) for part in (first, last)]
    return (
        f"{', '.join(told)}, {sizes[0]:.0f} to {sizes[1]:.0f} MB, "
        f"{instants[0]} to {instants[1]} instants"
    )
