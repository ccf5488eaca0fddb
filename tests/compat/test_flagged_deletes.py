"""Rows that a column of the data makes deletes: Hudi writes and reads them, and so do we."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.peer_tables import COMMIT_TIME, OPERATION, ORDERING, TYPE
from compat.same_rows import assert_same_rows
from compat.shared_table import ALONE
from compat.spark_turns import KINDS
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.config.write import DRIVER_MAX_BYTES

PAYLOAD = "hoodie.datasource.write.payload.class"
CLASSES = "org.apache.hudi.common.model."
MERGED_BY = ("merge.", "payload", "ordering.fields", "partial")


@dataclass(frozen=True)
class Flag:
    """A column, what it says of rows that live and of those that go, and the settings for it."""

    column: str
    options: dict[str, str]
    live: Any
    gone: Any
    by_event_time: bool = True


def _named(column: str, marker: str) -> dict[str, str]:
    return {"hoodie.payload.delete.field": column, "hoodie.payload.delete.marker": marker}


FLAGS = {
    "dms": Flag("Op", {PAYLOAD: f"{CLASSES}AWSDmsAvroPayload"}, "I", "D", by_event_time=False),
    "text": Flag(
        "op", {PAYLOAD: f"{CLASSES}DefaultHoodieRecordPayload", **_named("op", "D")}, "d", "D"
    ),
    "int": Flag("gone", _named("gone", "1"), 0, 1),
    "bool": Flag("gone", COMMIT_TIME | _named("gone", "true"), None, True, by_event_time=False),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_FLAG = pytest.mark.parametrize("flag", FLAGS.values(), ids=FLAGS)


def rows(flag: Flag, *lines: str) -> pa.Table:
    """Rows from words, `id city ts fare`; one that ends with a bang is a delete."""
    plain = trips(*(line.removesuffix("!") for line in lines))
    said = [flag.gone if line.endswith("!") else flag.live for line in lines]
    kind = pa.array([flag.gone]).type
    kind = pa.int32() if pa.types.is_integer(kind) else kind
    return plain.append_column(flag.column, pa.array(said, kind))


@dataclass
class Both:
    """One table, and both its writers."""

    hudi: Peer
    place: Path
    kind: str
    flag: Flag

    def make(self) -> None:
        """Let the table be one of ours; otherwise Hudi's first write makes it."""
        own = {k: v for k, v in self.flag.options.items() if v and not k.startswith("hoodie.write")}
        hoodoo.create_table(
            str(self.place),
            schema=rows(self.flag, "a sf 1 1").schema,
            name="trips",
            record_key="id",
            partition_by="city",
            ordering=self.flag.options.get(ORDERING, "ts") or None,
            table_type=self.kind,
            options=own,
        )

    def theirs(self, operation: str, *lines: str, **options: str) -> None:
        chosen = ALONE | self.flag.options | {OPERATION: operation, TYPE: KINDS[self.kind]}
        given = {name: value for name, value in (chosen | options).items() if value}
        self.hudi.write(self.place, rows(self.flag, *lines), given)

    def ours(self, operation: str, *lines: str, spark: SparkSession | None = None) -> None:
        table = hoodoo.open_table(str(self.place), {DRIVER_MAX_BYTES.name: "0"})
        given = rows(self.flag, *lines)
        getattr(table, operation)(spark.createDataFrame(given) if spark else given)

    def check(self, *expected: str) -> None:
        """Both read these rows, `id ts`, and the same in all columns."""
        found, theirs = hoodoo.open_table(str(self.place)).to_arrow(), self.hudi.read(self.place)
        assert_same_rows(found, theirs)
        told = zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True)
        assert sorted(f"{key} {ts}" for key, ts in told) == sorted(expected)


@pytest.mark.thin(2)
@EACH_FLAG
@EACH_KIND
@pytest.mark.parametrize("first", ["we", "they"])
def test_both_write_deletes(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str, flag: Flag, first: str
) -> None:
    both = Both(hudi, tmp_path / "t", kind, flag)
    start = ("a sf 5 1", "b sf 5 2", "c la 5 3", "d la 5 4", "e la 5 5", "f sf 5 6", "x sf 5 0!")
    if first == "we":
        both.make()
        both.ours("upsert", *start)
    else:
        both.theirs("upsert", *start)
    both.theirs("upsert", "a sf 6 1!", "b sf 4 2!", "y la 5 0!", "g la 5 7")  # b comes late
    late = ["b 5"] if flag.by_event_time else []
    both.check(*late, "c 5", "d 5", "e 5", "f 5", "g 5")
    both.ours("upsert", "c la 6 3!", "d la 4 4!", "z la 5 0!", "h sf 5 8")  # d too
    late += ["d 5"] if flag.by_event_time else []
    both.check(*late, "e 5", "f 5", "g 5", "h 5")
    both.ours("upsert", "e la 6 5!", "q la 5 0!", "i la 5 9", spark=spark)
    both.ours("insert", "r sf 5 0!", "j sf 5 10")
    both.theirs("insert", "s sf 5 0!", "k sf 5 11")
    both.theirs("upsert", "a sf 7 12", "c la 7 13")  # and back again
    both.check(*late, "a 7", "c 7", "f 5", "g 5", "h 5", "i 5", "j 5", "k 5")


def test_properties_are_those_that_hudi_writes(hudi: Peer, tmp_path: Path) -> None:
    for name, flag in FLAGS.items():
        tables = [Both(hudi, tmp_path / name / who, "cow", flag) for who in ("we", "they")]
        tables[0].make()
        tables[1].theirs("upsert", "a sf 1 1")
        found = [
            {key: value for key, value in properties.items() if any(m in key for m in MERGED_BY)}
            for properties in (hoodoo.open_table(str(each.place)).properties for each in tables)
        ]
        assert found[0] == found[1]


def test_bulk_inserts_drop_deletes_though_hudis_do_not(
    hudi: Peer, spark: SparkSession, tmp_path: Path
) -> None:
    both = Both(hudi, tmp_path / "t", "mor", FLAGS["dms"])
    both.theirs("bulk_insert", "a sf 5 1", "b sf 5 2!")
    both.check("a 5", "b 5")
    both.ours("bulk_insert", "c sf 5 3", "d sf 5 4!")
    both.ours("bulk_insert", "e sf 5 5", "f sf 5 6!", spark=spark)
    both.theirs("upsert", "a sf 6 1")  # a log on top of the base file that has b
    both.check("a 6", "b 5", "c 5", "e 5")
    both.ours("upsert", "a sf 7 1")
    both.check("a 7", "b 5", "c 5", "e 5")


@pytest.mark.parametrize(
    "payload", ["PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"]
)
def test_partial_updates_are_refused(hudi: Peer, tmp_path: Path, payload: str) -> None:
    flag = Flag("op", {PAYLOAD: f"{CLASSES}{payload}"}, "I", "D")
    both = Both(hudi, tmp_path / "t", "mor", flag)
    both.theirs("upsert", "a sf 1 1")
    with pytest.raises(hoodoo.HoodooError, match=r"hoodie\.table\.partial\.update\.mode"):
        both.ours("upsert", "a sf 2 2")
    both.place = tmp_path / "ours"
    with pytest.raises(hoodoo.HoodooError, match=r"payload\.class"):
        both.make()


def test_one_key_without_the_other_is_refused(hudi: Peer, tmp_path: Path) -> None:
    flag = Flag("op", {"hoodie.payload.delete.field": "op"}, "I", "D")
    both = Both(hudi, tmp_path / "t", "cow", flag)
    with pytest.raises(hoodoo.HoodooError, match=r"delete\.marker"):
        both.make()
    with pytest.raises(PeerError):
        both.theirs("upsert", "a sf 1 1")
