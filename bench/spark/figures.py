"""What the figures are, which of them have aims, and how they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bench.spark.race import Cell, Measured

Results = Mapping[tuple[Cell, str], Measured]


@dataclass(frozen=True)
class Figure:
    """One of our times against one of another side."""

    what: str
    kind: str
    step: str
    other: str
    """The other side; `side/kind`, or `side/kind@step`, where it has another kind or step."""
    aim: float | None = None
    """The most that our time may be, in theirs."""

    @property
    def ours(self) -> tuple[Cell, str]:
        """Where our time is."""
        return Cell("hoodoo", self.kind), self.step

    @property
    def theirs(self) -> tuple[Cell, str]:
        """Where the other time is."""
        side, _, rest = self.other.partition("/")
        kind, _, step = rest.partition("@")
        return Cell(side, kind or self.kind), step or self.step


PLAIN = (
    Figure("bulk_insert : write.parquet", "cow", "load", "plain", 1.0),
    Figure("bulk_insert, bucket : write.parquet", "cow-bucket", "load", "plain/cow"),
    Figure("COW upsert 10 %, simple : rewrite", "cow", "tenth", "plain", 0.5),
    Figure("COW upsert 10 %, bucket : rewrite", "cow-bucket", "tenth", "plain/cow", 0.4),
    Figure("MOR upsert 10 %, simple : rewrite", "mor", "tenth", "plain/cow", 0.25),
    Figure("MOR upsert 10 %, bucket : rewrite", "mor-bucket", "tenth", "plain/cow", 0.25),
    Figure("COW upsert 10 %, simple, cold : cold rewrite", "cow", "tenth-cold", "plain", 0.8),
    Figure("COW upsert 10 %, bucket, cold", "cow-bucket", "tenth-cold", "plain/cow"),
    Figure("MOR upsert 10 %, simple, cold", "mor", "tenth-cold", "plain/cow"),
    Figure("MOR upsert 10 %, bucket, cold", "mor-bucket", "tenth-cold", "plain/cow"),
    Figure("COW upsert 10 %, simple : broadcast rewrite", "cow", "tenth", "plain/broadcast"),
    Figure("MOR upsert 10 %, simple : broadcast rewrite", "mor", "tenth", "plain/broadcast"),
    Figure("COW upsert 1,000, simple : rewrite", "cow", "few", "plain", 0.3),
    Figure("COW upsert 1,000, bucket : rewrite", "cow-bucket", "few", "plain/cow", 0.3),
    Figure("MOR upsert 1,000, simple : rewrite", "mor", "few", "plain/cow", 0.1),
    Figure("MOR upsert 1,000, bucket : rewrite", "mor-bucket", "few", "plain/cow", 0.1),
    Figure("snapshot read, COW : read.parquet", "cow", "read", "plain", 1.05),
    Figure(
        "snapshot read, MOR, 10 % in logs : read.parquet", "mor", "merge", "plain/cow@read", 2.0
    ),
)
STEPS = {
    "load": "first load",
    "tenth": "upsert 10 %",
    "few": "upsert 1,000",
    "read": "read",
    "merge": "read after upsert 10 %",
}
"""What is measured against peers, of each kind."""
AIMS = {
    ("hudi", "load"): 1 / 1.5,
    ("hudi", "cow", "tenth"): 1 / 2,
    ("hudi", "mor", "tenth"): 1 / 3,
    ("delta", "tenth"): 1 / 1.3,
}


def figures(results: Results, peers: Iterable[str]) -> Iterator[tuple[Figure, Measured, Measured]]:
    """Each figure that could be measured, with both times."""
    for figure in (*PLAIN, *_beside(peers)):
        ours, theirs = results.get(figure.ours), results.get(figure.theirs)
        if ours and theirs:
            yield figure, ours, theirs


def _beside(peers: Iterable[str]) -> Iterator[Figure]:
    for peer in peers:
        for kind in ("cow", "cow-bucket", "mor", "mor-bucket"):
            for step, told in STEPS.items():
                base = kind.partition("-")[0]
                aim = AIMS.get((peer, base, step)) or AIMS.get((peer, step))
                what = f"{base.upper()} {told}{', bucket' * ('-' in kind)} : {peer}"
                yield Figure(what, kind, step, peer, aim)


def lines(results: Results, peers: Iterable[str]) -> Iterator[str]:
    """The table, with the phases of our side under each of its times."""
    yield f"{'what':<50} {'ours s':>8} {'theirs s':>8} {'ratio':>7} {'of CPU':>7} {'aim':>6}"
    told = set()
    for figure, ours, theirs in figures(results, peers):
        ratio, of_cpu = ours.seconds / theirs.seconds, ours.cpu_seconds / theirs.cpu_seconds
        verdict = ""
        if figure.aim:
            verdict = f"{figure.aim:5.2f}x {'met' if ratio <= figure.aim else 'MISSED'}"
        times = f"{ours.seconds:8.2f} {theirs.seconds:8.2f} {ratio:6.2f}x {of_cpu:6.2f}x"
        yield f"{figure.what:<50} {times} {verdict}".rstrip()
        if figure.ours not in told:
            told.add(figure.ours)
            yield from _phases(results[figure.ours].phases)


def _phases(phases: Mapping[str, float]) -> Iterator[str]:
    if phases:
        yield "    " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in phases.items())


def as_json(results: Results, peers: Iterable[str]) -> dict[str, object]:
    """All that was measured, for machines."""
    return {
        "measured": [
            {
                "side": cell.side,
                "kind": cell.kind,
                "step": step,
                "seconds": [run.seconds for run in measured.runs],
                "cpu_seconds": [run.cpu_seconds for run in measured.runs],
                "phases": dict(measured.phases),
            }
            for (cell, step), measured in results.items()
        ],
        "figures": [
            {
                "what": figure.what,
                "ours": ours.seconds,
                "theirs": theirs.seconds,
                "ratio": ours.seconds / theirs.seconds,
                "ratio_of_cpu": ours.cpu_seconds / theirs.cpu_seconds,
                "aim": figure.aim,
            }
            for figure, ours, theirs in figures(results, peers)
        ],
    }
