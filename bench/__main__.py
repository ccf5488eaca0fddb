"""`make bench`: figures as ratios within one run, because machines are shared and noisy.

python -m bench [reads | timeline | listing | commits | gate | gate-s3 ...]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import commits, gate, listing, reads, timeline

BENCHES: dict[str, Callable[[Path], None]] = {
    "reads": reads.run,
    "timeline": timeline.run,
    "listing": listing.run,
    "commits": commits.run,
    "gate": gate.run,
    "gate-s3": gate.run_on_s3,
}


def main(names: list[str]) -> None:
    """Run the benches named, or all."""
    for name in names or BENCHES:
        with tempfile.TemporaryDirectory(prefix="hoodoo-bench-") as folder:
            BENCHES[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
