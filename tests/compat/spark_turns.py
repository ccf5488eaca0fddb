"""A table that we write through Spark and Apache Hudi by its own means, in turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import OPERATION, TYPE
from compat.shared_table import ALONE, check, new_table
from pyspark.sql import DataFrame, SparkSession

import hoodoo
from hoodoo.model.keys import BucketRule, bucket_of
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.index.bucket_hash import bucket_numbers

COUNT = 4
INDEXES: Mapping[str, Mapping[str, str]] = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": f"{COUNT}"},
}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@dataclass
class Turns:
    """One table, and both its writers."""

    hudi: Peer
    spark: SparkSession
    place: Path
    kind: str
    index: str

    def make(self) -> None:
        """Let the table be one of ours; otherwise their first write makes it."""
        new_table(self.place, self.kind, INDEXES[self.index])

    def ours(self, operation: str, *lines: str, **options: str) -> CommitResult:
        """We write rows, `id city ts fare`, through Spark."""
        table = hoodoo.open_table(str(self.place), {**INDEXES[self.index], **options})
        result: CommitResult = getattr(table, operation)(self.frame(*lines))
        return result

    def theirs(self, operation: str, *lines: str) -> None:
        """Hudi writes rows."""
        options = ALONE | INDEXES[self.index] | {OPERATION: operation, TYPE: KINDS[self.kind]}
        self.hudi.write(self.place, trips(*lines), options)

    def frame(self, *lines: str) -> DataFrame:
        """Rows in our Spark."""
        return self.spark.createDataFrame(trips(*lines))

    def check(self, *expected: str) -> None:
        """All three read these rows, `id ts fare`; no bucket is there twice."""
        check(self.hudi, self.place, *expected)
        if self.index == "bucket":
            assert_in_buckets(self.place)


def assert_in_buckets(place: Path) -> None:
    """Each bucket of a partition is one file group, and has the keys of its number."""
    slices = take_snapshot(open_ref(str(place))).slices()
    places = [(s.group.partition, bucket_of(s.group.file_id)) for s in slices]
    assert len(set(places)) == len(places)
    rows = hoodoo.open_table(str(place)).to_arrow()
    numbers = bucket_numbers(rows["_hoodie_record_key"], BucketRule(COUNT, ("id",)))
    files = rows["_hoodie_file_name"].to_pylist()
    assert [bucket_of(file) for file in files] == numbers.tolist()
