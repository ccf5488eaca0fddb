"""Every log file that Apache Hudi wrote, from the fixtures: single files and whole tables."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

_KINDS = {"0712b9f9": "rollback", "6d3d1d6e": "delete", "ee2ace10": "parquet", "ff32ab89": "avro"}


@cache
def single_files(fixtures: Path) -> dict[str, bytes]:
    """The single log files, by what is in them."""
    files = (fixtures / "log").glob(".*.log.*")
    return {_KINDS[path.name[1:9]]: path.read_bytes() for path in files}


@cache
def log_files(fixtures: Path) -> dict[str, bytes]:
    """All log files, those of the tables and of their metadata tables included."""
    found = dict(single_files(fixtures))
    for table in sorted((fixtures / "tables").glob("*/*.zip")):
        with zipfile.ZipFile(table) as archive:
            for name in archive.namelist():
                base = name.rpartition("/")[2]
                is_log = base.startswith(".") and ".log." in base and not base.endswith(".crc")
                if is_log and not name.startswith("__MACOSX/"):
                    found[f"{table.parent.name}/{name}"] = archive.read(name)
    return found
