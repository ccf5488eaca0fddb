"""`hoodoo lock status` and `hoodoo lock break`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app
from hoodoo.concurrency.locks.lock import Lock
from hoodoo.concurrency.locks.table_lock import make_lock
from hoodoo.errors import LockLost
from hoodoo.format.json_files import Lease, decode_lock_file, encode_lock_file
from hoodoo.model.paths import LOCK
from hoodoo.runtime.env import SystemIds
from hoodoo.table.ref import TableRef, open_ref

pytestmark = pytest.mark.slow

SHORT = {
    "hoodie.write.lock.storage.validity.timeout.secs": 3,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    schema = pa.schema([("id", pa.int64())])
    options = {"hoodie.metadata.enable": False}  # nobody has held the lock yet
    hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id", options=options)
    return tmp_path / "t"


@pytest.fixture
def ref(place: Path) -> TableRef:
    return open_ref(str(place), SHORT)


@pytest.fixture
def held_lock(ref: TableRef) -> Iterator[Lock]:
    lock = make_lock(ref, "commit")
    assert lock.try_acquire() is None
    yield lock
    lock.release()


def leave_a_dead_lease(ref: TableRef) -> None:
    """What a process that died an hour ago left."""
    lock = make_lock(ref, "commit")
    assert lock.try_acquire() is None
    body = decode_lock_file(ref.env.storage.read(LOCK))
    lock.release()
    ref.env.storage.put(LOCK, encode_lock_file(Lease(body.owner, body.valid_until_ms - 3_600_000)))


def test_free_lock_is_shown_as_free(place: Path, hoodoo_cli) -> None:
    assert hoodoo_cli("lock", "status", place).facts == {
        "provider": "storage",
        "place": LOCK,
        "held": "no",
    }
    assert hoodoo_cli("lock", "status", place, "--json").json["is_held"] is False
    assert not (place / LOCK).exists()


def test_held_lock_is_shown_with_its_holder(place: Path, held_lock: Lock, hoodoo_cli) -> None:
    me = SystemIds().process()
    facts = hoodoo_cli("lock", "status", place).facts
    assert facts["held"] == "yes"
    assert facts["application"] == me.app
    assert (facts["host"], facts["process"]) == (me.host, str(os.getpid()))
    assert facts["phase"] == "commit"
    assert facts["since"].startswith("20")
    assert facts["end"] in ("it ends in 3 s unless renewed", "it ends in 4 s unless renewed")
    report = hoodoo_cli("lock", "status", place, "--json").json
    assert (report["pid"], report["phase"], report["lease_seconds"]) == (os.getpid(), "commit", 3.0)
    assert 0 < report["expires_in_seconds"] <= 3.5


def test_a_live_lease_is_not_broken(place: Path, held_lock: Lock, hoodoo_cli) -> None:
    ran = hoodoo_cli("lock", "break", place, "--yes")
    assert ran.code == 1
    assert f"process {os.getpid()} (commit)" in ran.err
    assert "ends in" in ran.err
    assert "nothing done" in ran.err
    held_lock.confirm_with_lock()


def test_live_lease_is_broken_with_force(
    place: Path, ref: TableRef, held_lock: Lock, hoodoo_cli
) -> None:
    ran = hoodoo_cli("lock", "break", place, "--yes", "--force")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"took the lock of {ref.uri} from ")
    assert ran.out.endswith("it is free now\n")
    with pytest.raises(LockLost):
        held_lock.check_last_confirmation()
    assert hoodoo_cli("lock", "status", place).facts["held"] == "no"


def test_a_dead_lease_is_broken(place: Path, ref: TableRef, hoodoo_cli) -> None:
    leave_a_dead_lease(ref)
    assert "ended 3" in hoodoo_cli("lock", "status", place).facts["end"]
    ran = hoodoo_cli("lock", "break", place, "--yes")
    assert ran.code == 0, ran.err
    assert decode_lock_file((place / LOCK).read_bytes()).expired
    again = hoodoo_cli("lock", "break", place, "--yes")
    assert (again.code, "nothing done" in again.out) == (0, True)
    leave_a_dead_lease(ref)
    told = hoodoo_cli("lock", "break", place, "--yes", "--json").json
    assert (told["is_broken"], told["holder"]["phase"]) == (True, "commit")
    again = hoodoo_cli("lock", "break", place, "--yes", "--json")
    assert again.json == {"is_broken": False, "holder": None}


@pytest.mark.parametrize(("answer", "is_broken"), [("y\n", True), ("n\n", False), ("", False)])
def test_break_asks_for_confirmation(
    place: Path, ref: TableRef, answer: str, is_broken: bool
) -> None:
    leave_a_dead_lease(ref)
    ran = CliRunner().invoke(app, ["lock", "break", str(place)], input=answer)
    assert ran.exit_code == (0 if is_broken else 1)
    assert "(commit)?" in ran.stdout
    assert decode_lock_file((place / LOCK).read_bytes()).expired == is_broken


def test_a_lock_of_apache_hudi(place: Path, hoodoo_cli) -> None:
    owner = "b3f1c2d4-0000-4000-8000-000000000001"
    (place / LOCK).parent.mkdir()
    (place / LOCK).write_bytes(encode_lock_file(Lease(owner, 0)))
    facts = hoodoo_cli("lock", "status", place).facts
    assert facts["owner"] == owner
    assert "application" not in facts
    ran = hoodoo_cli("lock", "break", place, "--yes")
    assert (ran.code, owner in ran.out) == (0, True)


def test_a_file_of_apache_hudi_needs_force(place: Path, hoodoo_cli) -> None:
    option = ("-o", "hoodie.write.lock.provider=filesystem")
    (place / ".hoodie/lock").write_text('{"lockCreateTime" : "2026-01-05 10:00:00.000"}')
    assert "2026-01-05" in hoodoo_cli("lock", "status", place, *option).facts["owner"]
    ran = hoodoo_cli("lock", "break", place, "--yes", *option)
    assert ran.code == 1
    assert "does not end by itself" in ran.err
    assert hoodoo_cli("lock", "break", place, "--yes", "--force", *option).code == 0
    assert not (place / ".hoodie/lock").exists()


def test_a_damaged_lease_can_be_broken(place: Path, hoodoo_cli) -> None:
    (place / LOCK).parent.mkdir()
    (place / LOCK).write_bytes(b"oops\x00")
    assert hoodoo_cli("lock", "status", place).facts["owner"] == "oops"
    assert hoodoo_cli("lock", "break", place, "--yes", "--force").code == 0
    assert decode_lock_file((place / LOCK).read_bytes()).expired


def test_in_process_locks_are_not_seen(place: Path, hoodoo_cli) -> None:
    option = ("-o", "hoodie.write.lock.provider=in_process")
    facts = hoodoo_cli("lock", "status", place, *option).facts
    assert (facts["provider"], facts["held"]) == ("in_process", "no")
    assert "only this one" in facts["place"]
    assert "nothing done" in hoodoo_cli("lock", "break", place, *option).out


def test_usage(hoodoo_cli) -> None:
    assert hoodoo_cli("lock").code == 2
    assert hoodoo_cli("lock", "nonsense").code == 2
    assert hoodoo_cli("lock", "status").code == 2
