"""Puts instants into a table's archived timeline."""

from __future__ import annotations

from pathlib import Path

from hoodoo.format.timeline import history as lsm


def archive(place: Path, *instants: lsm.ArchivedInstant) -> None:
    """Make these the whole history of the table at `place`."""
    name = f"{instants[0].requested_time}_{instants[-1].requested_time}_0.parquet"
    data = lsm.encode_instants(instants)
    history = place / ".hoodie/timeline/history"
    history.mkdir(parents=True, exist_ok=True)
    (history / name).write_bytes(data)
    manifest = lsm.encode_manifest([lsm.ManifestEntry(name, len(data))])
    (history / "manifest_1").write_bytes(manifest)
    (history / "_version_").write_bytes(lsm.encode_version(1))
