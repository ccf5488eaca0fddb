"""Lives as an SVG: a panel for each figure, a line for each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median

from life.life import Sample

WIDTH, HEIGHT, GAP, TOP = 330, 120, 60, 40
COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e")
BINS = 100


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of the samples."""

    title: str
    value: Callable[[Sample], float]


PANELS = (
    Panel("instants on the active timeline", lambda s: s.instants),
    Panel("objects in the store", lambda s: s.files),
    Panel("megabytes, without the history", lambda s: s.megabytes),
    Panel("megabytes of the history", lambda s: s.history_megabytes),
    Panel("CPU of an upsert and its upkeep, ms", lambda s: 1000 * s.upsert_s),
    Panel("CPU of a read, ms", lambda s: 1000 * s.read_s),
)


def draw(lives: Mapping[str, Sequence[Sample]], title: str) -> str:
    """All panels, two in a row."""
    rows = -(-len(PANELS) // 2)
    width, height = 2 * (WIDTH + GAP) + 20, TOP + rows * (HEIGHT + GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{GAP - 10}" y="22" font-size="14">{title}</text>',
    ]
    for number, panel in enumerate(PANELS):
        x = GAP - 10 + (number % 2) * (WIDTH + GAP)
        y = TOP + 20 + (number // 2) * (HEIGHT + GAP)
        parts += _draw_panel(panel, lives, x, y)
    for number, name in enumerate(lives):
        x = GAP - 10 + WIDTH + GAP + 150 * number
        parts.append(_line([(x, 18), (x + 30, 18)], COLOURS[number], 2.5))
        parts.append(f'<text x="{x + 38}" y="22">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _draw_panel(panel: Panel, lives: Mapping[str, Sequence[Sample]], x: int, y: int) -> list[str]:
    series = {name: _thin([panel.value(s) for s in samples]) for name, samples in lives.items()}
    most = _round_up(max(max(values) for values in series.values()))
    commits = max(len(samples) for samples in lives.values())
    parts = [f'<text x="{x}" y="{y - 8}">{panel.title}</text>']
    for share in (0, 0.5, 1):
        at = y + HEIGHT - share * HEIGHT
        parts.append(_line([(x, at), (x + WIDTH, at)], "#ddd", 1))
        label = f'<text x="{x - 5}" y="{at + 4}" text-anchor="end" font-size="10">'
        parts.append(f"{label}{share * most:g}</text>")
    for share in (0, 0.5, 1):
        label = f'<text x="{x + share * WIDTH}" y="{y + HEIGHT + 14}" text-anchor="middle"'
        parts.append(f'{label} font-size="10">{share * commits:,.0f}</text>')
    for number, values in enumerate(series.values()):
        step = WIDTH / max(len(values) - 1, 1)
        points = [(x + n * step, y + HEIGHT - v / most * HEIGHT) for n, v in enumerate(values)]
        parts.append(_line(points, COLOURS[number], 1.5))
    return parts


def _thin(values: Sequence[float]) -> list[float]:
    """Medians of as many neighbours as it takes to have few points."""
    size = max(1, len(values) // BINS)
    return [median(values[at : at + size]) for at in range(0, len(values), size)]


def _round_up(value: float) -> float:
    """A round number above this one, for the axis."""
    unit: float = 10 ** floor(log10(value)) if value > 0 else 1
    return next(unit * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if unit * factor >= value)


def _line(points: Sequence[tuple[float, float]], colour: str, width: float) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
