"""Test servers do not outlive the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hoodoo_testing.servers.object_stores import S3Server, free_ports, rclone

pytestmark = pytest.mark.server

START = """
import signal, sys
from pathlib import Path
from hoodoo_testing.servers.object_stores import rclone
with rclone(Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    signal.pause()
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_server_ends_with_its_block(careless_s3: S3Server, tmp_path: Path) -> None:
    with rclone(tmp_path) as server:
        assert is_running(server.pid)
    assert not is_running(server.pid)


def test_a_server_dies_with_a_killed_parent(careless_s3: S3Server, tmp_path: Path) -> None:
    command = [sys.executable, "-c", START, str(tmp_path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        os.sched_yield()
    assert not is_running(pid)


def test_free_ports_are_free() -> None:
    ports = free_ports(5, also_at=10_000)
    assert len(set(ports)) == 5
    assert all(port + 10_000 <= 65_535 for port in ports)
