"""Apache Hudi as one more writer of the same table: it is never killed nor stopped.

`python hudi_writer.py JOURNAL SPEC`; the spec has: uri, options (hoodoo's; those of the lock and of
heartbeats mean the same to Hudi), folder (of the journals), kind, and until (as wall time).

Hudi looks for conflicts by file group and has no check of keys: a key that it inserts while
another writer inserts it is there twice, and nobody but the other writer could prevent that, if it
commits second. So Hudi inserts only keys that nobody else uses, its own, and of the shared
keys it updates those that are surely there: keys of writes that were acknowledged before it begins.
Half of those writes take recent keys, over which it meets hoodoo's writers and is mostly refused,
since its writes take longer; the other half older ones, which it can get.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from compat.peer_client import Peer, PeerError
from support.processes import Journal, spec_of

from soak.keys import key_number, rows_of, witness_id
from soak.world import NAME, NO_SMALL_FILES
from soak.writes import HUDI, Outcome, load_writes

PEERS = Path(__file__).resolve().parents[2] / "scripts" / "peers.py"
OWN_KEYS = 5_000_000
"""Where the keys begin that Hudi alone uses; they are in partitions of their own."""

_RECENT_WRITES = 4
_SHARED = 10
_OWN = 10
_REFUSALS = ("ConcurrentModificationException", "HoodieWriteConflict", "Unable to acquire")
_SHARED_SETTINGS = ("hoodie.write.lock.", "hoodie.client.heartbeat.")


def settings_of(options: Mapping[str, object], kind: str) -> dict[str, str]:
    """Hudi as one of many writers, without metadata table and table services."""
    given = {**options, **NO_SMALL_FILES}
    shared = {
        key: str(value)
        for key, value in given.items()
        if key.startswith(_SHARED_SETTINGS) or key in NO_SMALL_FILES
    }
    table_type = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind]
    parallelism = ("insert.shuffle", "upsert.shuffle", "delete.shuffle", "bulkinsert.shuffle")
    return {
        **shared,
        **{f"hoodie.{what}.parallelism": "1" for what in parallelism},
        "hoodie.table.name": NAME,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.ordering.fields": "",
        "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.index.bloom.num_entries": "1000",
        "hoodie.datasource.write.commitmeta.key.prefix": "soak.",
    }


def draw(chance: random.Random, folder: Path, number: int) -> list[int]:
    """Some keys of its own, new and old, and some that are surely there."""
    own = [OWN_KEYS + number * _OWN // 2 + i for i in range(_OWN)]
    done = [w for w in load_writes(folder) if w.outcome is Outcome.ACKNOWLEDGED]
    shared = sorted((w for w in done if w.writer != HUDI), key=lambda w: w.instant or "")
    is_recent = chance.random() < 0.5
    few = shared[-_RECENT_WRITES:] if is_recent else shared[:-_RECENT_WRITES]
    keys = sorted({key_number(key) for write in few for key in write.keys})
    chosen = chance.sample(keys, min(_SHARED, len(keys)))
    return chosen + own if chance.random() < 0.7 else own


def write(
    peer: Peer, uri: str, settings: dict[str, str], journal: Journal, number: int, keys: list[int]
) -> None:
    """One write. Failures that name neither a conflict nor the lock leave its outcome unknown."""
    journal.note("intent", writer=HUDI, number=number, sort="hudi", keys=keys, at=time.time())
    noted = {"soak.witness": witness_id(HUDI, number)}
    try:
        peer.write(uri, rows_of(HUDI, number, keys), settings | noted)
    except (PeerError, TimeoutError) as error:
        logging.exception("write %d", number)
        is_refused = any(name in str(error) for name in _REFUSALS)
        word = "refused" if is_refused else "unknown"
        journal.note(word, error="Hudi's conflict" if is_refused else "Hudi's", reason=str(error))
    else:
        journal.note("ack")


def main() -> None:
    """Write until the end."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    found = subprocess.run([sys.executable, PEERS], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"no Apache Hudi here: {found.stderr.strip()}")
    folder = Path(spec["folder"])
    scratch = folder / "hudi"
    scratch.mkdir()
    peer = Peer(json.loads(found.stdout), scratch)
    try:
        settings = settings_of(spec["options"], spec["kind"])
        chance, number = random.Random(spec["until"]), 0
        while time.time() < spec["until"]:
            write(peer, spec["uri"], settings, journal, number, draw(chance, folder, number))
            number += 1
    finally:
        peer.close()


if __name__ == "__main__":
    main()
