"""A user's first hour with hoodoo, in about a minute, each scene checked against plain Python.

`python first_hour [--pages FILE ...] [SCENE ...]` in an empty folder, by a Python that has
`hoodoo[spark]`. Exit code 1, and a line on stderr, if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_line
import frames
import page_blocks
import peers
import pipeline
import stream
import two_drivers
from checks import Wrong, complain
from session import share_session

import hoodoo


def main() -> int:
    """Play the scenes one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", nargs="*", type=Path, default=[], help="whose blocks to run")
    parser.add_argument("scenes", nargs="*", help="all but `peers`, if none is named")
    asked = parser.parse_args()
    scenes: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "frames": ("rows from and to pandas and others", frames.run),
        "commands": ("the command line", command_line.run),
        "pandas": ("ten days with pandas, both types of tables", pipeline.run_both),
        "drivers": ("two drivers at once", two_drivers.run),
        "stream": ("a stream that is killed", stream.run),
        "blocks": (
            "what the pages show",
            lambda at: page_blocks.run(at, [page.resolve() for page in asked.pages], share_session),
        ),
        "spark": (
            "ten days with Spark, merge-on-read",
            lambda at: pipeline.run(at, "mor", share_session()[0]),
        ),
        "peers": (
            "what needs more packages: other readers, pages",
            lambda at: peers.run(at, [page.resolve() for page in asked.pages], share_session),
        ),
    }
    unknown = set(asked.scenes) - set(scenes)
    if unknown:
        parser.error(f"no scene {', '.join(unknown)}; there are {', '.join(scenes)}")
    print(f"hoodoo {hoodoo.__version__} of {Path(hoodoo.__file__).parent}", flush=True)
    for name in asked.scenes or [name for name in scenes if name != "peers"]:
        title, scene = scenes[name]
        print(f"{name}: {title}", flush=True)
        began = time.monotonic()
        place = Path.cwd() / name
        place.mkdir()
        try:
            scene(place)
        except (Wrong, hoodoo.HoodooError) as wrong:
            complain(f"{name}: {wrong}")
            return 1
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    print("all is as it should be", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
