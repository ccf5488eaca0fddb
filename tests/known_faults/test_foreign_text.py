"""Text out of a table neither steers a terminal, nor forges log lines, nor says whom to call."""

from __future__ import annotations

import logging
import re
import select
import socket
from pathlib import Path

import pytest
from support.bounded import run_bounded
from support.hostile import change_properties, move_head, new_table, recover, rows, run_or_refuse
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app

NASTY = "\x1b[2J\x1b]0;title\x07\x9b31m\u202eevil\u2028"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def printed(*words: str | Path) -> str:
    """What the program prints for people or for scripts."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: `show` prints control and bidirectional characters of a table's name",
)
def test_show_escapes_the_name_of_a_table(tmp_path: Path, flags: list[str]) -> None:
    new_table(tmp_path / "table")
    change_properties(tmp_path / "table", {"hoodie.table.name": f"t{NASTY}"})
    assert not STEERING.findall(printed("show", tmp_path / "table", *flags))


@pytest.mark.parametrize("command", ["files", "scan"])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: JSON of `files` and `scan` has control characters of partition values",
)
def test_json_escapes_the_value_of_a_partition(tmp_path: Path, command: str) -> None:
    new_table(tmp_path / "table").upsert(rows(1, "sf\x9b31m", start=10))
    assert not STEERING.findall(printed(command, tmp_path / "table", "--json"))


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: a log line repeats line breaks and control characters of a foreign path",
)
def test_a_log_line_escapes_a_foreign_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new_table(tmp_path / "table")
    path = "city=x/\x1b[2J\n2026-01-01 CRITICAL forged"
    move_head(tmp_path / "table", "request", path, b"x")
    with caplog.at_level(logging.DEBUG, logger="hoodoo"):
        run_or_refuse(recover, tmp_path / "table")
    messages = [record.getMessage() for record in caplog.records]
    assert [text for text in messages if STEERING.search(text) or "\n" in text] == []


def lock_status(place: Path) -> None:
    hoodoo.open_table(str(place)).lock_status()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.5: the table's own properties say which ZooKeeper is called",
)
def test_no_server_is_called_that_the_table_names(tmp_path: Path) -> None:
    new_table(tmp_path / "table")
    with socket.create_server(("127.0.0.1", 0)) as server:
        change_properties(
            tmp_path / "table",
            {
                "hoodie.write.lock.provider": "zookeeper",
                "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{server.getsockname()[1]}",
                "hoodie.write.lock.zookeeper.base_path": "/x",
                "hoodie.write.lock.zookeeper.connection_timeout_ms": "1000",
                "hoodie.write.lock.wait_time_ms": "1000",
            },
        )
        run_bounded(lock_status, tmp_path / "table", wall_s=5)
        callers, _, _ = select.select([server], [], [], 0)
    assert not callers
