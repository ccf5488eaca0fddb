#!/usr/bin/env python3
"""Makes hoodoo's virtual environment, `.venv`, with nothing but Python 3.11 and a package index.

`make` calls it when the environment is missing, or older than the files that say what is in it.
Older Pythons run this file too, to be told so: keep its syntax plain.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
READY = VENV / "ready"
OLDEST = (3, 11)
NEWER = ("python3.13", "python3.12", "python3.11")
TOLD_LINES = 12


class Failed(Exception):
    """The environment could not be made; the text says what to do."""


def main():
    try:
        if sys.version_info < OLDEST:
            return run_by_a_newer_python()
        started = time.monotonic()
        make_venv()
        install()
        READY.touch()
        say(f"ready in {time.monotonic() - started:.0f} s")
    except Failed as failed:
        say(f"cannot set up: {failed}")
        return 1
    return 0


def say(text):
    print(f"hoodoo: {text}", file=sys.stderr, flush=True)


def run_by_a_newer_python():
    """Hand over to a newer Python of this machine, if there is one."""
    for name in NEWER:
        if shutil.which(name) and succeeds([name, "-c", "pass"]):
            return subprocess.call([name, __file__])
    raise Failed(
        f"this needs Python 3.11 or newer, and {sys.executable} is Python {version(2)}. "
        "Install one, or name it: make PYTHON=/path/to/python3.11 ..."
    )


def version(parts):
    return ".".join(str(number) for number in sys.version_info[:parts])


def make_venv():
    """A virtual environment with pip; one that is broken is made again."""
    if succeeds([PYTHON, "-m", "pip", "--version"]):
        return
    if not succeeds([sys.executable, "-c", "import venv, ensurepip"]):
        raise Failed(
            f"Python's venv module is missing from {sys.executable}. On Debian and Ubuntu "
            f"the package python{version(2)}-venv brings it."
        )
    say(f"making .venv with Python {version(3)}")
    run([sys.executable, "-m", "venv", "--clear", VENV], "the virtual environment was not made")


def install():
    """The pinned packages and hoodoo itself, by uv if it can be had, else by pip."""
    say("installing the packages of pyproject.toml, as pinned in constraints.txt")
    what = ["-c", "constraints.txt", "-e", ".[test,docs]"]
    uv = find_uv()
    by_uv = [uv, "pip", "install", "--quiet", "--python", PYTHON, "--compile-bytecode", *what]
    if not (uv and succeeds(by_uv)):
        # uv may lack what pip knows of this machine: an index of its own, certificates, a proxy.
        run(
            [PYTHON, "-m", "pip", "install", "--quiet", *what],
            "the packages could not be installed. Is there a network, or a package index that "
            "pip knows (PIP_INDEX_URL)?",
        )
    if not succeeds([PYTHON, "-m", "hoodoo.cli.java"]):
        say("this machine has no Java for Spark: installing one by pip")
        if not succeeds([PYTHON, "-m", "pip", "install", "--quiet", "-e", ".[java]"]):
            say("that failed; what needs Spark or ZooKeeper will say so")
    # Where PYTHONDONTWRITEBYTECODE is set, each start of the command would compile it anew.
    succeeds([PYTHON, "-m", "compileall", "-q", "src"])


def find_uv():
    """A uv program: the machine's own, or one that pip brings; None if there is none."""
    own = VENV / "bin" / "uv"
    if not own.exists():
        if shutil.which("uv"):
            return "uv"
        pip = [PYTHON, "-m", "pip", "install", "--quiet", "--retries=2"]
        succeeds([*pip, "-c", "constraints.txt", "uv"])
    return own if own.exists() else None


def run(command, trouble):
    """Run a command to its end, or fail with the trouble and the last lines that it told."""
    done = call(command)
    if done.returncode:
        told = done.stdout.decode(errors="replace").strip().splitlines()[-TOLD_LINES:]
        raise Failed("\n".join([trouble] + ["  | " + line for line in told]))


def succeeds(command):
    return call(command).returncode == 0


def call(command):
    words = [str(word) for word in command]
    env = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1")
    try:
        return subprocess.run(
            words,
            cwd=str(ROOT),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, str(error).encode())


if __name__ == "__main__":
    sys.exit(main())
