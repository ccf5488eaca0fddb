"""Shared by all tests: where the fixtures are, an S3, a deterministic hypothesis profile."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.fixtures import FIXTURES, fixture_tables
from support.memory_disk import MEMORY_DISK, has_room
from support.pairwise_in_ci import mark_nights
from support.servers import or_skip

from hoodoo.cli.java import java_home
from hoodoo_testing.servers.jvm import LIGHT
from hoodoo_testing.servers.object_stores import S3Server, seaweedfs

__all__ = ["FIXTURES", "fixture_tables"]

if "JAVA_HOME" not in os.environ and shutil.which("java") is None and (found := java_home()):
    os.environ["JAVA_HOME"] = str(found)  # the one that pip brought

# For the sessions that tests start in programs of their own, as users do.
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(LIGHT))

# Tests lose no power, so what they sync need not go to a disk; `TMPDIR=/tmp` is the disk again.
if "TMPDIR" not in os.environ and has_room(MEMORY_DISK):
    os.environ["TMPDIR"] = str(MEMORY_DISK)  # and that of the programs that tests start
    tempfile.tempdir = None  # look again

settings.register_profile(
    "hoodoo",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("hoodoo")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_nights(items)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of tables that Apache Hudi wrote."""
    if not FIXTURES.is_dir():
        pytest.skip("the fixtures folder (../shared/fixtures, or HOODOO_FIXTURES) is absent")
    return FIXTURES


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS: an S3 that honours conditions."""
    with or_skip(seaweedfs(tmp_path_factory.mktemp("seaweedfs"))) as server:
        yield server


@pytest.fixture(scope="session")
def unpack(fixtures: Path, tmp_path_factory: pytest.TempPathFactory):
    """Unpacks a fixture table once per session and gives its path; treat it as read-only."""
    root = tmp_path_factory.mktemp("fixtures")

    def unpacked(table: str) -> Path:
        kind, name = table.split("/")
        target = root / kind / name
        if not target.exists():
            with zipfile.ZipFile(fixtures / "tables" / kind / f"{name}.zip") as archive:
                archive.extractall(root / kind)
        return target

    return unpacked


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was simulated: how many crash points, seeds and schedules."""
    told = [
        str(line)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for key, line in getattr(report, "user_properties", ())
        if key == "simulated"
    ]
    if told:
        terminalreporter.section("simulated")
        for line in sorted(told):
            terminalreporter.write_line(line)
