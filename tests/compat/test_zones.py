"""Apache Hudi and we write one table in turns, west of Greenwich, by local time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from beside import ALONE, check
from conftest import PEERS
from peer_client import Peer
from peer_rows import trips
from peer_tables import OPERATION, TYPE
from support.zones import time_zone

import hoodoo

ZONE = "America/New_York"
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@pytest.fixture(scope="module")
def hudi_there(hudi: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """An Apache Hudi whose JVM is in another time zone."""
    found = subprocess.run([sys.executable, PEERS], capture_output=True, check=True)
    peer = Peer(json.loads(found.stdout), tmp_path_factory.mktemp("hudi-there"), zone=ZONE)
    yield peer
    peer.close()
