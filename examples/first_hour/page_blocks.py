"""The Python blocks of pages run as they are pasted.

The blocks of a page run in order, share their names, and have one fresh folder. A block that is
marked `python spark` finds a session named `spark`. A page without such a block runs in a process
of its own, which must not import pyspark. Pages with one share a session, and Spark's JVM stays in
the folder in which it was started: so they run there, and what they made is moved away.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from checks import Wrong, say

BLOCK = re.compile(r"^```(python(?: spark)?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = ("polars", "duckdb", "hudi")
LAST_LINES = 12


def read_blocks(page: Path) -> list[tuple[str, str]]:
    """Kind and text of each block."""
    return BLOCK.findall(page.read_text())


def named_packages(page: Path) -> list[str]:
    """Packages that blocks import, and hoodoo does not bring."""
    text = "\n".join(block for _, block in read_blocks(page))
    return [name for name in NEEDS if re.search(rf"^\s*(import|from) {name}\b", text, re.M)]


def run_blocks(page: Path, place: Path, names: dict[str, Any]) -> int:
    """Run a page's blocks in a folder; gives how many there are."""
    blocks = read_blocks(page)
    with contextlib.chdir(place):
        for number, (_, text) in enumerate(blocks, 1):
            code = compile(text.replace("/data/", f"{place}/"), f"{page.name}:{number}", "exec")
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, names)
            except Exception as error:
                told = "".join(traceback.format_exception(error)).splitlines()[-LAST_LINES:]
                raise Wrong("\n".join([f"block {number} of {page.name} fails:", *told])) from None
    return len(blocks)


def run_in_process(page: Path, place: Path) -> int:
    """Run a page in a Python without Spark."""
    words = [sys.executable, __file__, str(page), str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(done.stderr.strip() or f"{page.name}: exit code {done.returncode}")
    return len(read_blocks(page))


def run(place: Path, pages: list[Path], make_session: Callable[[], tuple[Any, Path]]) -> None:
    """Run each page; one that needs a package that is not here is left out, and named."""
    for page in pages:
        if not read_blocks(page):
            continue
        missing = [name for name in named_packages(page) if find_spec(name) is None]
        if missing:
            say(f"{page.name}: left out, it needs {', '.join(missing)}")
            continue
        folder = place / page.stem
        folder.mkdir()
        if any(kind == "python spark" for kind, _ in read_blocks(page)):
            spark, there = make_session()
            count = run_blocks(page, there, {"__name__": "__main__", "spark": spark})
            for made in there.iterdir():
                made.rename(folder / made.name)
        else:
            count = run_in_process(page, folder)
        say(f"{page.name}: {count} blocks ran")


def main() -> int:
    """`page_blocks.py PAGE FOLDER`: run a page in this process, without Spark."""
    page, place = map(Path, sys.argv[1:])
    try:
        run_blocks(page, place, {"__name__": "__main__"})
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    if "pyspark" in sys.modules:
        print(
            f"{page.name} imports pyspark, and no block is marked `python spark`", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
