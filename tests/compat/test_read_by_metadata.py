"""Others read our tables through our metadata table: what it hides from them, they do not see.

One history, with every action that writes to it. The wheel is asked after each step, Apache Hudi
after some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from compat.metadata_beside import assert_no_complaints, hiding_group_of
from compat.peer_client import Peer
from compat.peer_rows import FIRST, trips
from compat.peer_tables import METADATA
from compat.shared_table import NO_SMALL_FILES, settle, texts
from support.dead_writes import dead_upsert
from support.wheel import wheel_rows

import hoodoo
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.checks.metadata_table import check_metadata_table

OPTIONS = {
    METADATA: True,
    "hoodie.metadata.index.column.stats.enable": True,
    "hoodie.metadata.global.record.level.index.enable": True,
    "hoodie.metadata.compact.max.delta.commits": 1000,
    "hoodie.clean.automatic": False,
    "hoodie.archive.automatic": False,
    "hoodie.clean.commits.retained": 1,
    **NO_SMALL_FILES,
}
BY_METADATA = {METADATA: "true"}


@dataclass
class Story:
    """A table of ours, and the rows that it should have."""

    hudi: Peer
    place: Path
    kind: str
    partitioned: bool
    rows: dict[str, str] = field(default_factory=dict)

    def make(self) -> None:
        hoodoo.create_table(
            str(self.place),
            schema=trips("a sf 1 1").schema,
            name="trips",
            record_key="id",
            partition_by="city" if self.partitioned else None,
            ordering="ts",
            table_type=self.kind,
            options=OPTIONS,
        )

    @property
    def table(self) -> hoodoo.Table:
        return hoodoo.open_table(str(self.place), OPTIONS)

    def expect(self, *lines: str) -> None:
        """These rows, `id city ts fare`, are there from now on."""
        for key, _, ts, fare in (line.split() for line in lines):
            self.rows[key] = f"{key} {ts} {fare}"

    def lose(self, *keys: str) -> None:
        for key in keys:
            del self.rows[key]

    def check(self, *, by_hudi: bool) -> None:
        """The rows are right; and without one file group, if that one is hidden from readers."""
        check_metadata_table(open_ref(str(self.place)).env.storage)
        self._compare(self.place, self.rows.values(), by_hudi=by_hudi)
        if by_hudi:
            assert_no_complaints(self.hudi, self.place)
        with hiding_group_of(self.place, min(self.rows)) as (copy, hidden):
            left = [line for key, line in self.rows.items() if key not in hidden]
            assert len(left) < len(self.rows)
            self._compare(copy, left, by_hudi=by_hudi)

    def _compare(self, place: Path, lines: Iterable[str], *, by_hudi: bool) -> None:
        expected = sorted(lines)
        assert texts(wheel_rows(place)) == expected
        if by_hudi:
            assert texts(self.hudi.read(place, BY_METADATA).to_pylist()) == expected


def insert(story: Story) -> None:
    story.table.insert(trips(*FIRST))
    story.expect(*FIRST)


def update(story: Story) -> None:
    lines = ("a sf 2 11", "c la 2 31", "f rome 1 60")
    story.table.upsert(trips(*lines))
    story.expect(*lines)


def delete(story: Story) -> None:
    story.table.delete(trips("d la 9 0"))
    story.lose("d")


def overwrite(story: Story) -> None:
    lines = ("x la 1 1", "y oslo 1 2")
    if story.partitioned:
        story.table.insert_overwrite(trips(*lines))
        story.lose("c")
    else:
        lines = ("a sf 3 12", *lines)
        story.table.insert_overwrite_table(trips(*lines))
        story.rows.clear()
    story.expect(*lines)


def drop_partition(story: Story) -> None:
    if story.partitioned:
        story.table.delete_partitions(["city=rome"])
        story.lose("f")


def compact(story: Story) -> None:
    story.table.upsert(trips("x la 2 3", "z oslo 1 4"))
    story.expect("x la 2 3", "z oslo 1 4")
    if story.kind == "mor":
        assert story.table.schedule_compaction()
        assert story.table.run_compaction()


def cluster(story: Story) -> None:
    assert story.table.schedule_clustering("fare")
    assert story.table.run_clustering()


def clean(story: Story) -> None:
    for ts in (3, 4):
        story.table.upsert(trips(f"x la {ts} {ts}"))
    story.expect("x la 4 4")
    assert story.table.clean()


def compact_metadata(story: Story) -> None:
    assert compact_metadata_table(open_ref(str(story.place), OPTIONS), at_least=1)


def roll_back(story: Story) -> None:
    dead = dead_upsert(story.place, trips("x la 9 9", "w oslo 9 9"))
    assert list((story.place / ".hoodie/metadata").rglob(f"{dead}_*.deltacommit"))
    assert texts(wheel_rows(story.place)) == sorted(story.rows.values())
    assert story.table.recover()
    assert not list((story.place / ".hoodie/metadata").rglob(f"{dead}_*.deltacommit"))


def restore(story: Story) -> None:
    saved = story.table.upsert(trips("x la 5 5")).instant
    story.expect("x la 5 5")
    story.table.savepoint(saved)
    story.table.upsert(trips("x la 6 6", "v sf 1 1"))
    story.table.delete(trips("x la 9 0"))
    settle(story.place, OPTIONS)
    assert story.table.restore(saved).instants


def write_on(story: Story) -> None:
    story.table.upsert(trips("x la 7 7", "u la 1 8"))
    story.expect("x la 7 7", "u la 1 8")


Step = Callable[[Story], None]
STEPS: tuple[Step, ...] = (
    insert,
    update,
    delete,
    overwrite,
    drop_partition,
    compact,
    cluster,
    clean,
    compact_metadata,
    roll_back,
    restore,
    write_on,
)
SEEN_BY_HUDI = (overwrite, cluster, compact_metadata, restore)
"""The rest is seen by it at night."""


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("partitioned", [True, False], ids=["partitions", "flat"])
def test_others_read_through_our_metadata_table(
    hudi: Peer, tmp_path: Path, kind: str, partitioned: bool, request: pytest.FixtureRequest
) -> None:
    story = Story(hudi, tmp_path / "trips", kind, partitioned)
    story.make()
    at_night = request.node.get_closest_marker("nightly") is not None
    for step in STEPS:
        step(story)
        story.check(by_hudi=at_night or step in SEEN_BY_HUDI)
