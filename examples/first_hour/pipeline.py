"""Ten days of a pipeline: batches, late rows, deletes, a new column, a merge; and its consumer."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import orders
import pandas as pd
import pyarrow as pa
from checks import check, check_equal, rows_by_key, say
from consumer import Consumer, Died
from orders import Orders, Row

import hoodoo

SCHEMA = pa.schema(
    [("order_id", pa.string()), ("city", pa.string()), ("cents", pa.int64()), ("ts", pa.int64())]
)
UPKEEP = {  # often enough to happen within ten days
    "hoodie.compact.inline.max.delta.commits": 4,
    "hoodie.clustering.inline": True,
    "hoodie.clustering.inline.max.commits": 7,
    "hoodie.parquet.small.file.limit": 0,  # new orders go to new files: a clustering has work
    "hoodie.clean.commits.retained": 6,
}
COLUMNS = [*SCHEMA.names, "channel"]


class Pipeline:
    """One table, its model and its consumer; with a session, Spark writes and reads."""

    def __init__(self, place: Path, table_type: str, spark: Any = None) -> None:
        self.spark = spark
        self.place = place
        self.model = Orders()
        self.table = hoodoo.create_table(
            place / "orders",
            schema=SCHEMA,
            record_key="order_id",
            partition_by="city",
            ordering="ts",
            table_type=table_type,
            options=UPKEEP,
        )

    def run_day(self, day: int) -> str:
        """A day's writes, and the consumer after them; gives a line about them."""
        batch = self.model.make_day(day)
        done = self.table.upsert(self.frame(batch), transaction=("orders", day))
        self.model.upsert(batch)
        told = [f"day {day:2}: {done.stats.inserted} new, {done.stats.updated} updated"]
        if day == orders.LOST_ANSWER_DAY:
            told.append(self.send_again(batch, day, done.instant))
        if day == orders.MERGE_DAY:
            told.append(self.merge(day))
        if day == orders.UPDATE_DAY:
            told.append(self.update())
        told.append(self.delete_by_key(day) if day % 2 else self.delete_by_predicate(day))
        told.append(self.follow(dies=day % 3 == 0))
        self.check_table(day)
        return ", ".join(told)

    def send_again(self, batch: list[Row], day: int, instant: str) -> str:
        """The answer was lost: the batch is sent once more, and must count once."""
        again = self.table.upsert(self.frame(batch), transaction=("orders", day))
        check(again.is_skipped, f"the batch of day {day} was written twice")
        check_equal("instant of the batch that was sent twice", again.instant, instant)
        return "sent twice and counted once"

    def merge(self, day: int) -> str:
        """Refunds and an order that was forgotten."""
        source = self.model.make_corrections(day)
        done = self.table.merge(
            self.frame(source),
            on=["order_id", "city"],
            when_matched_update={"cents": "source.cents", "ts": "source.ts"},
            when_not_matched_insert=True,
            transaction=("corrections", day),
        )
        assert done is not None
        self.model.upsert([{**self.model.rows.get(row["order_id"], {}), **row} for row in source])
        check_equal("rows updated by the merge", done.stats.updated, len(source) - 1)
        check_equal("rows inserted by the merge", done.stats.inserted, 1)
        return f"{len(source)} merged"

    def update(self) -> str:
        """A fee on some old orders."""
        done = self.table.update(
            {"cents": "cents + 10"}, where="city = 'lima' and ts < 3000", spark=self.spark
        )
        assert done is not None
        changed = [
            {**row, "cents": row["cents"] + 10}
            for row in self.model.rows.values()
            if row["city"] == "lima" and row["ts"] < 3000
        ]
        self.model.upsert(changed)
        check_equal("rows updated by a predicate", done.stats.updated, len(changed))
        return f"{len(changed)} updated by predicate"

    def delete_by_key(self, day: int) -> str:
        """Orders that were taken back."""
        keys = self.model.chance.sample(sorted(self.model.rows), 5)
        rows = [{"order_id": key, "city": self.model.rows[key]["city"]} for key in keys]
        done = self.table.delete(self.frame(rows), transaction=("returns", day))
        self.model.delete(keys)
        check_equal("rows deleted by key", done.stats.deleted, 5)
        return "5 deleted by key"

    def delete_by_predicate(self, day: int) -> str:
        """Small orders of one city are not worth their room."""
        where = f"city = 'oslo' and cents < {2_000 + 100 * day}"
        done = self.table.delete(where=where, spark=self.spark, transaction=("small", day))
        keys = [
            row["order_id"]
            for row in self.model.rows.values()
            if row["city"] == "oslo" and row["cents"] < 2_000 + 100 * day
        ]
        self.model.delete(keys)
        check_equal("rows deleted by predicate", done.stats.deleted if done else 0, len(keys))
        return f"{len(keys)} deleted by predicate"

    def follow(self, dies: bool) -> str:
        """The consumer is a new process each day; on some days it dies and starts once more."""
        place = self.place / "consumer.json"
        if dies:
            with suppress(Died):
                Consumer(self.table, place, self.spark).follow(dies=True)
        consumer = Consumer(self.table, place, self.spark)
        changes = consumer.follow()
        check_equal("sums that the consumer has", consumer.sums, self.model.sums())
        return f"{changes} changes" + (" (the consumer died once)" if dies else "")

    def check_table(self, day: int) -> None:
        """All rows are those of the model; sums over the whole table are too."""
        if self.spark is None:
            frame = self.table.to_pandas()
        else:
            frame = self.table.read(self.spark).select(*self.table.schema.names).toPandas()
        frame = frame.astype(object).where(frame.notna(), None)
        got = rows_by_key(frame.to_dict("records"), "order_id")
        names = COLUMNS if day >= orders.NEW_COLUMN_DAY else SCHEMA.names
        want = {
            key: {name: row.get(name) for name in names} for key, row in self.model.rows.items()
        }
        check_equal(f"rows after day {day}", got, want)
        whole = frame.groupby("city")["cents"].agg(["sum", "count"])
        sums = {city: (int(row["sum"]), int(row["count"])) for city, row in whole.iterrows()}
        check_equal(f"sums of all rows after day {day}", sums, self.model.sums())

    def check_upkeep(self, table_type: str) -> str:
        """Services ran on the way, and nothing is wrong now."""
        actions = {one.action for one in self.table.timeline()}
        wanted = {"clean", "replacecommit"} | ({"commit"} if table_type == "mor" else set())
        check(wanted <= actions, f"services that did not run: {wanted - actions}")
        check_equal("what the doctor finds", self.table.doctor(), [])
        kinds = "compaction, " if table_type == "mor" else ""
        return f"{kinds}clustering and clean ran on the way; the doctor finds nothing"

    def frame(self, rows: list[Row]) -> Any:
        """Rows as this engine takes them."""
        frame = pd.DataFrame(rows)
        if self.spark is None:
            return frame
        types = {"cents": "long", "ts": "long"}
        columns = ", ".join(f"{name} {types.get(name, 'string')}" for name in frame.columns)
        listed = [tuple(row.get(name) for name in frame.columns) for row in rows]
        return self.spark.createDataFrame(listed, columns)


def run(place: Path, table_type: str, spark: Any = None) -> None:
    """Ten days, each checked."""
    pipeline = Pipeline(place, table_type, spark)
    for day in range(1, orders.DAYS + 1):
        say(pipeline.run_day(day))
    say(pipeline.check_upkeep(table_type))


def run_both(place: Path) -> None:
    """Ten days with each type of table, in this process."""
    for table_type in ("cow", "mor"):
        (place / table_type).mkdir()
        run(place / table_type, table_type)
