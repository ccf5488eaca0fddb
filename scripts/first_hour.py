#!/usr/bin/env python3
"""Plays `examples/first_hour` as a user would: hoodoo from a wheel, in an environment of its own.

`python scripts/first_hour.py [SCENE ...]`. The wheel is built from this clone and installed with
`hoodoo[spark]` and nothing else; the scenes run in an empty folder outside of the repository. Then
polars and the `hudi` wheel come in, for what needs them. uv is used where it is, with its cache and
hard links; pip does it too. Folder and environment are removed, unless something is wrong.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("src", "pyproject.toml", "README.md", "LICENSE")
SCENES = ROOT / "examples" / "first_hour"
# Two cores: what starts drivers of its own, and what one process does.
LANES = (("frames", "commands", "pandas", "blocks", "spark"), ("drivers", "stream"))
LATER = ("polars", "hudi")
# What a developer's shell says, and a user's does not.
OURS = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV", "HOODOO", "PYTEST")


class Failed(Exception):
    """The environment could not be made; the text says why."""


def main() -> int:
    """Build, install, play."""
    scenes = sys.argv[1:]
    place = Path(tempfile.mkdtemp(prefix="hoodoo-first-hour-"))
    try:
        python = make_environment(place)
        (place / "hour").mkdir()
        code = play(python, place / "hour", [scenes] if scenes else LANES)
        if code == 0 and not scenes:
            code = play_later(python, place)
    except Failed as failed:
        print(f"first hour: {failed}", file=sys.stderr)
        code = 2
    if code:
        print(f"first hour: tables, logs and environment are in {place}", file=sys.stderr)
    else:
        shutil.rmtree(place)
    return code


def make_environment(place: Path) -> Path:
    """A virtual environment with a wheel of this clone; gives its Python."""
    began = time.monotonic()
    source, python = place / "source", place / "venv" / "bin" / "python"
    source.mkdir()
    for name in PARTS:  # a copy: setuptools would leave a folder with old modules in the clone
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("*.egg-info"))
        else:
            shutil.copy(path, source / name)
    uv = find_uv()
    if uv:
        run(uv, "build", "--quiet", "--wheel", "--out-dir", place / "dist", source)
        run(uv, "venv", "--quiet", "--python", sys.executable, place / "venv")
    else:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
        run(*pip, "--no-deps", "--wheel-dir", place / "dist", source)
        run(sys.executable, "-m", "venv", place / "venv")
    (wheel,) = (place / "dist").glob("*.whl")
    extras = "spark" if shutil.which("java") or os.environ.get("JAVA_HOME") else "spark,java"
    install(python, f"hoodoo[{extras}] @ {wheel.as_uri()}")
    way = "uv" if uv else "pip"
    print(f"installed {wheel.name} by {way} in {time.monotonic() - began:.0f} s", flush=True)
    return python


def find_uv() -> str | None:
    """The uv of the environment that runs this, or of the machine."""
    own = Path(sys.executable).with_name("uv")
    return str(own) if own.exists() else shutil.which("uv")


def install(python: Path, *packages: str) -> None:
    """Install packages in the versions that are pinned."""
    pins = ("-c", ROOT / "constraints.txt")
    uv = find_uv()
    if uv:
        by_uv = (uv, "pip", "install", "--quiet", "--python", python, *pins, *packages)
        try:
            run(*by_uv, "--offline")  # all is in its cache: a second instead of a minute
        except Failed:
            run(*by_uv)
    else:
        run(python, "-m", "pip", "install", "--quiet", *pins, *packages)


def play(python: Path, folder: Path, lanes: Sequence[Sequence[str]]) -> int:
    """Each lane of scenes in a process, in one folder; gives the first exit code that is not 0.

    What the first lane says is shown at once, and what the others say when they end.
    """
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
    pages = ["--pages", str(ROOT / "README.md"), *map(str, guides)]
    running = []
    for number, scenes in enumerate(lanes):
        words = [str(python), str(SCENES), *scenes, *pages]
        output: dict[str, Any] = {}
        if number:
            output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        env = user_environment()
        running.append(subprocess.Popen(words, cwd=folder, env=env, text=True, **output))
    for process in running:
        told, _ = process.communicate()
        print(told or "", end="", flush=True)
    return next((process.returncode for process in running if process.returncode), 0)


def play_later(python: Path, place: Path) -> int:
    """What needs packages that hoodoo does not bring."""
    try:
        install(python, *LATER)
    except Failed as failed:
        print(f"without {' and '.join(LATER)}: {failed}", flush=True)
        return 0
    (place / "later").mkdir()
    return play(python, place / "later", [["frames", "peers"]])


def user_environment() -> dict[str, str]:
    """The variables of a user's shell, and one that saves two warnings of Spark's."""
    users = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**users, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(*words: object) -> None:
    """Run a command, or fail with the end of what it says."""
    told = [str(word) for word in words]
    done = subprocess.run(
        told, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise Failed(f"{' '.join(told[:4])} ... failed:\n{end}")


if __name__ == "__main__":
    sys.exit(main())
