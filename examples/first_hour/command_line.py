"""The command line: files are loaded, looked at and queried; mistakes are one clear line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from checks import check, check_equal, say

CSV = "id,city,fare\n1,oslo,10.5\n2,rome,20.0\n"
JSON = '{"id": 2, "city": "rome", "fare": 21.0}\n{"id": 3, "city": "lima", "fare": 7.25}\n'
PARQUET = {"id": [4], "city": ["oslo"], "fare": [30.0]}
TRACE = "Traceback"


def run_hoodoo(
    *words: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the program that was installed beside this Python."""
    program = Path(sys.executable).with_name("hoodoo")
    return subprocess.run(
        [str(program), *words],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def run(place: Path) -> None:
    """A table that is made, loaded and read by commands only."""

    def hoodoo(*words: str) -> str:
        done = run_hoodoo(*words, cwd=place)
        told = f"hoodoo {' '.join(words)}"
        check(done.returncode == 0, f"{told}: exit code {done.returncode}: {done.stderr}")
        check(bool(done.stdout.strip()), f"{told} says nothing")
        return done.stdout

    (place / "monday.csv").write_text(CSV)
    (place / "tuesday.json").write_text(JSON)
    pq.write_table(pa.table(PARQUET), place / "wednesday.parquet")
    columns = "id:long!,city:string,fare:double"
    hoodoo("create", "trips", "--schema", columns, "--record-key", "id")
    for file in ("monday.csv", "tuesday.json", "wednesday.parquet"):
        hoodoo("write", "trips", "--op", "upsert", "--from", file)
    scanned = [json.loads(line) for line in hoodoo("scan", "trips", "--json").splitlines()]
    fares = {row["id"]: row["fare"] for row in scanned}
    check_equal("rows that were loaded", fares, {1: 10.5, 2: 21.0, 3: 7.25, 4: 30.0})
    say(f"a CSV, a JSON and a Parquet file are loaded: {len(scanned)} rows")

    found = hoodoo("scan", "trips", "--filter", "fare > 20", "--columns", "id", "--json")
    check_equal("rows with fare > 20", sorted(found.splitlines()), ['{"id": 2}', '{"id": 4}'])
    instants = json.loads(hoodoo("timeline", "trips", "--json"))
    check_equal("commits on the timeline", len(instants), 3)
    since = instants[0]["requested_time"]
    changes = hoodoo("changes", "trips", "--since", since, "--deletes", "--json").splitlines()
    kinds = sorted(json.loads(line)["_change_type"] for line in changes)
    check_equal("changes since monday", kinds, ["insert", "insert", "update_postimage"])
    for command in ("show", "timeline", "files", "scan"):
        hoodoo(command, "trips")
    completed = run_hoodoo(_HOODOO_COMPLETE="complete_bash", COMP_WORDS="hoodoo sc", COMP_CWORD="1")
    check_equal("what bash completes", completed.stdout.split(), ["schema", "scan"])
    say("show, timeline, files, scan, changes and completion answer")
    make_mistakes(place)
    instants = json.loads(hoodoo("timeline", "trips", "--json"))
    check_equal("commits after the mistakes", len(instants), 3)


def make_mistakes(place: Path) -> None:
    """Each is an exit code and one line; nothing is written."""
    (place / "wrong.csv").write_text("id,town\n9,oslo\n")
    (place / "text.csv").write_text("id,city,fare\n9,oslo,cheap\n")
    mistakes = [
        (1, "write trips --op upsert --from wrong.csv", "town"),
        (1, "write trips --op upsert --from text.csv", "fare"),
        (1, "write trips --op upsert --from gone.csv", "gone.csv"),
        (1, "show nowhere", "nowhere"),
        (1, "scan trips --filter town=1", "town"),
        (1, "scan trips --filter fare>>1", "filter"),
        (2, "write trips --op replace --from monday.csv", "replace"),
        (2, "scan trips --wher x", "--wher"),
        (2, "scam trips", "scam"),
    ]
    for code, command, word in mistakes:
        done = run_hoodoo(*command.split(), cwd=place)
        told = f"hoodoo {command}"
        check_equal(f"exit code of {told}", done.returncode, code)
        check(word in done.stderr, f"{told} does not name {word!r}: {done.stderr}")
        check(TRACE not in done.stderr + done.stdout, f"{told} prints a traceback")
        lines = done.stderr.strip().splitlines()
        check(code == 2 or len(lines) == 1, f"{told} says more than one line: {done.stderr}")
    say(f"{len(mistakes)} mistakes: exit code 1 or 2, a clear line, nothing written")
