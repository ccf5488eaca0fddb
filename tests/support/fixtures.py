"""Where the tables are that Apache Hudi wrote."""

from __future__ import annotations

import os
from pathlib import Path

FIXTURES = Path(
    os.environ.get("HOODOO_FIXTURES") or Path(__file__).resolve().parents[3] / "shared" / "fixtures"
)


def fixture_tables() -> list[str]:
    """Names of the fixture tables, as `kind/name`, for parametrised tests."""
    root = FIXTURES / "tables"
    return sorted(f"{path.parent.name}/{path.stem}" for path in root.glob("*/*.zip"))
