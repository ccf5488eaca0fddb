"""Where the table of a soak is: its store, its lock, and the options that reach both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hoodoo
from hoodoo.table.ref import open_ref
from hoodoo_testing.servers.object_stores import seaweedfs
from hoodoo_testing.servers.zookeeper import zookeeper
from soak.keys import SCHEMA

if TYPE_CHECKING:
    from soak.soak_run import Setting

LEASE_S = 5
NAME = "soak"

OPTIONS: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
    "hoodie.write.lock.storage.validity.timeout.secs": LEASE_S,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
    "hoodie.write.lock.wait_time_ms": 120_000,
    "hoodie.write.num.retries.on.conflict.failures": 3,
}

NO_SMALL_FILES: Mapping[str, object] = {"hoodie.parquet.small.file.limit": 0}
"""New rows go to new file groups: writes that insert the same keys then share no file group."""

NO_RETRIES: Mapping[str, object] = {"hoodie.write.num.retries.on.conflict.failures": 0}
"""With retries few writes are refused in the end."""


@dataclass(frozen=True)
class World:
    """A new table, and how writers open it."""

    uri: str
    options: Mapping[str, object]
    writer_options: tuple[Mapping[str, object], ...]
    """Each write takes one of these."""

    def keep_table(self, place: Path) -> None:
        """Copy the table to a folder, if it is not on disk anyway."""
        if place.exists():
            return
        storage = open_ref(self.uri, self.options).env.storage
        for entry in storage.list("", recursive=True):
            target = place / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(storage.read(entry.path))


@contextmanager
def open_world(setting: Setting, folder: Path) -> Iterator[World]:
    """Servers, if there are to be any, and an empty table."""
    with ExitStack() as servers:
        uri, options = str(folder / "table"), dict(OPTIONS)
        if setting.store == "s3":
            s3 = servers.enter_context(seaweedfs(folder / "seaweedfs"))
            uri = s3.uri("soak/table")
            options.update(s3.options)
        if setting.lock == "zookeeper":
            server = servers.enter_context(zookeeper(folder / "zookeeper"))
            options.update(zookeeper_lock(server.address))
        hoodoo.create_table(
            uri,
            schema=SCHEMA,
            name=NAME,
            record_key="id",
            partition_by="part",
            table_type=setting.kind,
            options=options,
        )
        # Beside Apache Hudi, pending base files in old groups of a MOR table hide later logs from
        # it (docs/compatibility.md): no writer may use small files then.
        into_new_groups = {**options, **NO_SMALL_FILES}
        into_any = into_new_groups if setting.beside_hudi else options
        sets = [into_new_groups, into_any]
        yield World(uri, options, (*sets, *({**each, **NO_RETRIES} for each in sets)))


def zookeeper_lock(address: str) -> dict[str, object]:
    """A lock that Apache Hudi can share; the same names mean the same to both."""
    prefix = "hoodie.write.lock"
    return {
        f"{prefix}.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        f"{prefix}.zookeeper.url": address,
        f"{prefix}.zookeeper.base_path": "/soak",
        f"{prefix}.zookeeper.lock_key": NAME,
        f"{prefix}.zookeeper.session_timeout_ms": LEASE_S * 1000,
    }
