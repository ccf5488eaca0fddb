"""Trips of a taxi company, made by Spark itself: the same rows on every machine.

Keys are hashes, so the rows of one commit lie in all files; most columns compress badly, as real
ones do. Runs on every Spark that a peer needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 what Spark's own pages call it

KEY, ORDERING, PARTITION = "trip_id", "ts", "city"
COLUMNS = (KEY, PARTITION, ORDERING, "driver", "rider", "fare", "distance", "receipt")
CITIES = ("amsterdam", "berlin", "cairo", "delhi", "essen", "florence", "geneva", "havana")
FILES = 4
FEW = 1_000
TENTH = "tenth"
LATER_MS = 10_000_000_000


def trips(ids: DataFrame, version: int = 0) -> DataFrame:
    """A row of eight columns for each id; a later version differs in all but key and city."""
    ident = F.col("id")

    def chance(salt: int, below: int) -> Column:
        return F.pmod(F.xxhash64(ident, F.lit(salt * 100 + version)), F.lit(below))

    cities = F.array(*map(F.lit, CITIES))
    return ids.select(
        F.md5(ident.cast("string")).alias(KEY),
        cities[F.pmod(ident, F.lit(len(CITIES))).cast("int")].alias(PARTITION),
        (chance(1, 1_000_000_000) + 1_700_000_000_000 + version * LATER_MS).alias(ORDERING),
        F.concat(F.lit("driver-"), F.lpad(chance(2, 50_000), 5, "0")).alias("driver"),
        F.concat(F.lit("rider-"), F.lpad(chance(3, 10_000_000), 7, "0")).alias("rider"),
        (chance(4, 2**40) / 1e10).alias("fare"),
        (chance(5, 2**50) / 1e13).alias("distance"),
        F.sha2(F.concat_ws("-", ident, F.lit(version)).cast("binary"), 256).alias("receipt"),
    )


@dataclass(frozen=True)
class Source:
    """Where the rows to write are, as Parquet files: all, and a share of them changed."""

    all: str
    tenth: str
    hundredth: str
    few: str


def build(spark: SparkSession, folder: Path, rows: int) -> Source:
    """Write what the sides will read."""
    source = Source(*(str(folder / name) for name in ("all", "tenth", "hundredth", "few")))
    ids = spark.range(0, rows, 1, FILES)
    trips(ids).write.parquet(source.all)
    trips(ids.where(_share(TENTH, rows)), version=1).write.parquet(source.tenth)
    for name, place in (("hundredth", source.hundredth), ("few", source.few)):
        trips(ids.where(_share(name, rows)), version=2).coalesce(1).write.parquet(place)
    return source


def _share(name: str, rows: int) -> Column:
    """Which ids a share of the rows has."""
    every = {TENTH: 10, "hundredth": 100, "few": rows // FEW}[name]
    return F.col("id") % every == min(7, every // 2)


def expected(spark: SparkSession, rows: int, share: str = "") -> Sequence[int]:
    """What the checksum must be after the load, or after the upsert of a share."""
    ids = spark.range(0, rows, 1, FILES)
    if not share:
        return checksum(trips(ids))
    changed, version = _share(share, rows), 1 if share == TENTH else 2
    return checksum(trips(ids.where(~changed)).union(trips(ids.where(changed), version)))


def checksum(frame: DataFrame) -> Sequence[int]:
    """Two numbers that are equal for equal rows, in whatever order: how many, and a hash."""
    found = frame.agg(F.count(F.lit(1)), F.bit_xor(F.xxhash64(*COLUMNS))).first()
    return list(found) if found else []
