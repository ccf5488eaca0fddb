"""What the command line may ask of the Spark bench."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path

PEERS = ("hudi", "hudi-defaults", "delta")
KINDS = ("cow", "cow-bucket", "mor", "mor-bucket")


@dataclass(frozen=True)
class Options:
    """How large, how often, beside whom."""

    rows: int = 4_000_000
    repeat: int = 3
    peers: tuple[str, ...] = ("hudi", "delta")
    kinds: tuple[str, ...] = KINDS
    partitioned: bool = False
    json: Path | None = None


def add_options(parser: ArgumentParser) -> None:
    """Add them to a parser."""
    own = parser.add_argument_group("spark")
    own.add_argument("--rows", type=int, default=Options.rows)
    own.add_argument("--repeat", type=int, default=Options.repeat, help="turns; medians are told")
    own.add_argument("--peers", type=_names, default=Options.peers, help=f"of {','.join(PEERS)}")
    own.add_argument("--kinds", type=_names, default=Options.kinds, help=f"of {','.join(KINDS)}")
    own.add_argument("--partitioned", action="store_true", help="by city, instead of not at all")
    own.add_argument("--json", type=Path, help="write all that was measured to this file")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def options_of(given: Namespace) -> Options:
    """The options as they were given."""
    return Options(**{name: getattr(given, name) for name in Options.__dataclass_fields__})
