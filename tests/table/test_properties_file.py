"""`hoodie.properties` on storage: how it is replaced, and what a crash in between leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hoodoo.concurrency.transactions.gate import change_properties
from hoodoo.concurrency.transactions.head import read_head
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import FormatError, NoSuchTable, UnsupportedVersion
from hoodoo.model import paths
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.create import create_table
from hoodoo.table.properties import load_properties
from hoodoo.table.ref import open_ref

SCHEMA = pa.schema([("id", pa.int64())])


class PowerCut(BaseException):
    """The process is gone."""


def make(name: str) -> Env:
    env = Env(TracedStorage(open_storage(f"memory://{name}", {})))
    create_table(f"memory://{name}", schema=SCHEMA, record_key="id", name="t", env=env)
    return env


def update(env: Env, **changes: str) -> None:
    named = {f"hoodie.{key}": value for key, value in changes.items()}
    # This lock dies with its holder at once; others would keep the next update waiting.
    ref = open_ref(env.storage.uri, {"hoodie.write.lock.provider": "in_process"}, env)
    with transaction(ref, "test") as txn:
        change_properties(txn, named)


def test_an_update_and_its_checksum() -> None:
    env = make("properties-update")
    update(env, extra="ünï=code: #!")
    raw = load_properties(env).raw
    assert raw["hoodie.extra"] == "ünï=code: #!"
    assert not env.storage.exists(paths.PROPERTIES_BACKUP)


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_crash_at_any_operation_leaves_a_table_that_opens_and_updates(steps: int) -> None:
    env = make(f"properties-crash-{steps}")
    left = steps

    def before(verb: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise PowerCut

    broken = Env(TracedStorage(env.storage, before=before))
    try:
        update(broken, extra="new")
        survived = True
    except PowerCut:
        survived = False
    found = load_properties(env).raw.get("hoodie.extra")
    assert found in (None, "new")
    assert found == "new" or not survived
    update(env, extra="after")
    assert load_properties(env).raw["hoodie.extra"] == "after"
    assert not env.storage.exists(paths.PROPERTIES_BACKUP)


def test_a_change_is_finished_once_by_whoever_comes_next() -> None:
    """The process dies between the head and the file; another engine changes the file later."""
    env = make("properties-decided")

    def before(verb: str, path: str) -> None:
        if verb == "replace" and path == paths.PROPERTIES:
            raise PowerCut

    with pytest.raises(PowerCut):
        update(Env(TracedStorage(env.storage, before=before)), extra="new")
    assert "hoodie.extra" not in load_properties(env).raw
    ref = open_ref(env.storage.uri, {"hoodie.write.lock.provider": "in_process"}, env)
    with transaction(ref, "look"):
        assert load_properties(env).raw["hoodie.extra"] == "new"
    theirs = env.storage.read(paths.PROPERTIES).replace(b"hoodie.extra=new", b"hoodie.extra=theirs")
    env.storage.put(paths.PROPERTIES, theirs)
    with transaction(ref, "look"):
        assert load_properties(env).raw["hoodie.extra"] == "theirs"


def test_a_writer_that_looked_before_the_properties_changed_cannot_decide() -> None:
    env = make("properties-gate")
    ref = open_ref(env.storage.uri, {"hoodie.write.lock.provider": "in_process"}, env)
    with transaction(ref, "commit") as txn:
        looked = txn.head
        change_properties(txn, {"hoodie.extra": "new"})
    assert read_head(env).number == looked.number + 1


def test_broken_files_name_themselves() -> None:
    env = make("properties-broken")
    sound = env.storage.read(paths.PROPERTIES)
    for data, kind in (
        (b"", FormatError),
        (b"\xff\xfe junk", FormatError),
        (sound.replace(b"hoodie.table.version=9", b"hoodie.table.version=11"), UnsupportedVersion),
        (sound.replace(b"hoodie.table.name=t", b"hoodie.table.name=other"), FormatError),
    ):
        env.storage.put(paths.PROPERTIES, data)
        with pytest.raises(kind) as caught:
            load_properties(env)
        assert caught.value.source == paths.PROPERTIES


def test_no_table() -> None:
    with pytest.raises(NoSuchTable):
        load_properties(Env(open_storage("memory://nothing-here", {})))
