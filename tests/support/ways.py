"""The former name of `carriers`, for the two modules of the Spark model."""

from __future__ import annotations

from support.carriers import CARRIERS as WAYS
from support.carriers import from_files

__all__ = ["WAYS", "from_files"]
