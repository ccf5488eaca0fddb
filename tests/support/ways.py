"""The ways of Spark's writes, by how much is written; tests write little, and choose one."""

from __future__ import annotations

from collections.abc import Mapping

_BYTES, _KEYS = "hoodie.write.spark.driver.max.bytes", "hoodie.write.spark.driver.max.keys"

JOINS = {_BYTES: "0", _KEYS: "0"}
"""As much data goes: keys are joined with those of the files, rows are shuffled."""
WAYS: Mapping[str, Mapping[str, str]] = {
    "rows": {},
    "keys": {_BYTES: "0"},
    "joins": JOINS,
}
"""The driver collects the rows; only their keys; nothing."""
