"""Writes that replace whole partitions, and writes that make the same bucket."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hoodoo.concurrency.others import WRITER_KEY
from hoodoo.env import Env
from hoodoo.model.instant import InstantTime
from hoodoo.table.ref import open_ref
from hoodoo.testing.sim.tables import OPTIONS, TableScenario, Write
from hoodoo.testing.sim.world import Action
from hoodoo.timeline.load import read_commit


def committed_by_process(env: Env, writes: Mapping[str, Write]) -> dict[int, InstantTime]:
    """Which of these writes, by the process that does each, were committed, and as what."""
    ref = open_ref(env.storage.uri, OPTIONS, env)
    committed = {}
    for instant in ref.load_timeline().commits:
        metadata = read_commit(env, ref.properties.timeline, instant)
        words = metadata.extra_metadata[WRITER_KEY].replace(",", " ").split()
        for name, write in writes.items():
            if name in words:
                committed[write.v] = instant.requested_time
    return committed


class Overwrite(TableScenario):
    """Two overwrites of a partition that is empty, and an insert into it.

    An overwrite takes witnesses of others away. So each process does one write, and commits are
    known by the process that made them.
    """

    name = "overwrite"
    plan: Mapping[str, Write] = MappingProxyType(
        {
            "w1": Write(1, ("x",), parts=("q",), operation="insert_overwrite"),
            "w2": Write(2, ("y",), parts=("q",), operation="insert_overwrite"),
            "w3": Write(3, ("z",), parts=("q",), operation="insert"),
        }
    )

    def actors(self) -> Mapping[str, Action]:
        return {name: self.writer(write) for name, write in self.plan.items()}

    def _committed(
        self, env: Env, found: Mapping[str, tuple[InstantTime, int]]
    ) -> dict[int, InstantTime]:
        committed = {self.first.v: self.ledger.acknowledged[self.first.v]}
        return committed | committed_by_process(env, self.plan)


class OverwriteUpsert(Overwrite):
    """An overwrite of a partition with rows, an upsert of these, and an insert beside them."""

    name = "overwrite-upsert"
    plan = MappingProxyType(
        {
            "w1": Write(1, ("x",), operation="insert_overwrite"),
            "w2": Write(2, ("a", "y")),
            "w3": Write(3, ("z",), operation="insert"),
        }
    )


class OverwriteUpsertMor(OverwriteUpsert):
    """The same on a merge-on-read table."""

    name = "overwrite-upsert-mor"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


class DropPartition(Overwrite):
    """A partition is dropped while rows are inserted into it, and updated in it."""

    name = "drop-partition"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})
    plan = MappingProxyType(
        {
            "w1": Write(1, (), operation="delete_partitions"),
            "w2": Write(2, ("y",), operation="insert"),
            "w3": Write(3, ("a", "z"), parts=("p", "q")),
        }
    )


class SameBucket(TableScenario):
    """Three writers that make the same buckets of a new partition, with the same key."""

    name = "same-bucket"
    options = MappingProxyType(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1}
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("new", "x"), parts=("q",))),
            "w2": self.writer(Write(2, ("new", "y"), parts=("q",))),
            "w3": self.writer(Write(3, ("new", "a"), parts=("q", "p"))),
        }


class SameBucketMor(SameBucket):
    """The same on a merge-on-read table."""

    name = "same-bucket-mor"
    table_type = "mor"


SCENARIOS = (
    Overwrite,
    OverwriteUpsert,
    OverwriteUpsertMor,
    DropPartition,
    SameBucket,
    SameBucketMor,
)
