"""`make bench`: figures as ratios within one run, because machines are shared and noisy.

python -m bench [reads | changes | lookups | record-index | record-index-upserts |
record-index-spark | timeline | listing | metadata-listing | commits | upkeep | plans | gate |
gate-s3 | markers | early | early-spark | clustering | services | merge | spark ...] [options]
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import (
    changes,
    commits,
    early,
    gate,
    listing,
    lookups,
    markers,
    metadata_listing,
    plans,
    reads,
    record_index,
    record_index_upserts,
    timeline,
    upkeep,
)
from bench.spark.options import Options, add_options, options_of

BENCHES: dict[str, Callable[[Path], None]] = {
    "reads": reads.run,
    "changes": changes.run,
    "lookups": lookups.run,
    "record-index": record_index.run,
    "record-index-upserts": record_index_upserts.run,
    "timeline": timeline.run,
    "listing": listing.run,
    "metadata-listing": metadata_listing.run,
    "commits": commits.run,
    "upkeep": upkeep.run,
    "plans": plans.run,
    "gate": gate.run,
    "gate-s3": gate.run_on_s3,
    "markers": markers.run,
    "early": early.run,
}


CLUSTERED_ROWS = 2_000_000
CONTENDED_ROWS = 3_000_000


def main(arguments: list[str]) -> None:
    """Run the benches named, or all."""
    names = (
        *BENCHES,
        "record-index-spark",
        "early-spark",
        "clustering",
        "services",
        "merge",
        "spark",
    )
    parser = ArgumentParser(prog="python -m bench", description="Ratios within one run.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(names)}; or all")
    add_options(parser)
    given = parser.parse_args(arguments)
    unknown = set(given.names) - set(names)
    if unknown:
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    benches: dict[str, Callable[[Path], None]] = {
        **BENCHES,
        "early-spark": partial(_early, rows=min(given.rows, CONTENDED_ROWS)),
        "clustering": partial(_clustering, rows=min(given.rows, CLUSTERED_ROWS)),
        "services": partial(_services, rows=min(given.rows, CLUSTERED_ROWS)),
        "merge": partial(_merge, rows=given.rows),
        "spark": partial(_spark, options=options_of(given)),
        "record-index-spark": partial(_record_index, options=options_of(given)),
    }
    for name in given.names or names:
        with tempfile.TemporaryDirectory(prefix="hoodoo-bench-") as folder:
            benches[name](Path(folder))


def _early(folder: Path, rows: int) -> None:
    from bench.spark.early import run  # the other benches need no pyspark

    run(folder, rows)


def _clustering(folder: Path, rows: int) -> None:
    from bench.clustering import run  # the other benches need no pyspark

    run(folder, rows)


def _services(folder: Path, rows: int) -> None:
    from bench.services import run  # the same

    run(folder, rows)


def _merge(folder: Path, rows: int) -> None:
    from bench.merge import run  # the same

    run(folder, rows)


def _spark(folder: Path, options: Options) -> None:
    from bench.spark.run import run  # the other benches need no pyspark

    run(folder, options)


def _record_index(folder: Path, options: Options) -> None:
    from bench.spark.record_index import run  # the same

    run(folder, options)


if __name__ == "__main__":
    main(sys.argv[1:])
