"""How many random histories a test plays: a few in CI, as many as it is told at night."""

from __future__ import annotations

import os


def histories(in_ci: int) -> int:
    """So many in CI, or what `HOODOO_MODEL_HISTORIES` says: `make test-nightly` says 200."""
    return int(os.environ.get("HOODOO_MODEL_HISTORIES", in_ci))
