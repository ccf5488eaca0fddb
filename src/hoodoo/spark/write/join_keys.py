"""Writes of many rows: keys and rows stay in Spark, and the index's rules come to them.

Rows get `PARTITION` and `LABEL`, the destination of their key. Labels that are computed from keys
alone are the numbers of buckets (`bucket_hash`). For an index that searches files, the keys of the
files are joined with the incoming ones; one that looks keys up has workers ask for them
(`look_up_keys`). Where a rule has to choose between several finds of a key, workers run it on
shares of the keys. A key that several file groups have comes back once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.rows.arrays import are_greater, one_array, to_flags
from hoodoo.spark.schema import IS_DELETED, LABEL, PARTITION, to_frame
from hoodoo.spark.write.bucket_hash import number_buckets
from hoodoo.spark.write.prepare import PreparedRows, keep_one_per_key, ordering_of
from hoodoo.spark.write.stored_keys import (
    ALIVE,
    MOST_BROADCAST,
    add_stored_rows,
    find_in_slices,
    keep_incoming_keys,
    look_up_keys,
    read_stored_keys,
    read_stored_rows,
)
from hoodoo.write.index.destinations import NEW
from hoodoo.write.index.matches import (
    NEW_FILE_GROUP,
    Flags,
    Matches,
    Positions,
    Targets,
    keep_live_matches,
)
from hoodoo.write.planning.assignment import WriteTarget

Keep = Callable[[DataFrame], DataFrame]

_STORED_ORDER, _INCOMING_ORDER = "_hoodoo_stored", "_hoodoo_incoming"
_DROP_LABEL = "dropped"
"""The label of rows that go nowhere."""
_TARGETS = (
    f"{RECORD_KEY} string, {PARTITION_PATH} string, {PARTITION} string, {LABEL} string, "
    f"{IS_DELETED} boolean"
)


def tag_new(target: WriteTarget, rows: DataFrame) -> DataFrame:
    """Rows that are new whatever keys there are, with their destination."""
    place = {PARTITION: sf.col(PARTITION_PATH)}
    if target.index.searches_files:
        return rows.withColumns({**place, LABEL: sf.lit(NEW)})
    return rows.withColumns({**place, LABEL: _labels(target)})


def tag(
    spark: SparkSession,
    target: WriteTarget,
    rows: PreparedRows,
    counts: Mapping[str, int],
    keep: Keep,
    *,
    deletes: bool,
) -> DataFrame:
    """Rows with the destinations of their keys; absent keys need no delete.

    `counts` tells how many rows each partition gets. `keep` is for what is costly and is looked at
    again: the rows that come back are, to be counted and to be written.
    """
    if not target.index.searches_files:
        return _tag_by_label(spark, target, rows, deletes=deletes)
    if target.index.is_global and not rows.in_all_partitions:
        merge = target.ref.properties.merge
        rows = replace(rows, frame=keep_one_per_key(rows.frame, rows.schema, merge, [RECORD_KEY]))
    tagged_rows = _tag_by_search(spark, target, rows, counts, keep, deletes=deletes)
    return tagged_rows.filter(sf.col(LABEL) != NEW) if deletes else tagged_rows


def _tag_by_label(
    spark: SparkSession, target: WriteTarget, rows: PreparedRows, *, deletes: bool
) -> DataFrame:
    """Rows by the label of their key; those that tell no partition, for each that there is."""
    present = target.index.destinations(target.snapshot.slices())
    if rows.in_all_partitions:
        places = sorted({destination.partition for destination in present})
        every = to_frame(spark, pa.table({PARTITION: pa.array(places, pa.string())}))
        tagged_rows = rows.frame.withColumn(LABEL, _labels(target)).crossJoin(sf.broadcast(every))
    else:
        tagged_rows = tag_new(target, rows.frame)
    if not deletes:
        return tagged_rows
    columns = {
        PARTITION: pa.array([destination.partition for destination in present], pa.string()),
        LABEL: pa.array([destination.label for destination in present], pa.string()),
    }
    destinations = sf.broadcast(to_frame(spark, pa.table(columns)))
    return tagged_rows.join(destinations, [PARTITION, LABEL], "left_semi")


def _labels(target: WriteTarget) -> Column:
    """The labels of keys; those of buckets by Spark itself, where it can."""
    assert target.index.buckets is not None
    fields = target.ref.properties.keys.record_fields
    numbers = number_buckets(sf.col(RECORD_KEY), target.index.buckets, fields)
    return numbers.cast("string")


def _tag_by_search(
    spark: SparkSession,
    target: WriteTarget,
    rows: PreparedRows,
    counts: Mapping[str, int],
    keep: Keep,
    *,
    deletes: bool,
) -> DataFrame:
    snapshot, index, anywhere = target.snapshot, target.index, rows.in_all_partitions
    slices = [
        slice_
        for slice_ in snapshot.slices()
        if anywhere or index.is_global or slice_.group.partition in counts
    ]
    if not slices:
        return tag_new(target, rows.frame)
    count, compares = sum(counts.values()), index.compares_ordering and not anywhere
    lookup = index.open_lookup(snapshot)
    if lookup is not None:
        matches = keep(look_up_keys(spark, lookup, rows.frame))
        stored_rows = add_stored_rows(spark, snapshot, matches, rows.frame) if compares else None
        matches, compares = (stored_rows, True) if stored_rows is not None else (matches, False)
    elif index.asks_footers and not anywhere:
        matches = keep(find_in_slices(spark, snapshot, index, slices, rows.frame))
    else:
        read = read_stored_rows if compares else read_stored_keys
        matches = keep_incoming_keys(read(spark, snapshot, slices), rows.frame, count)
        if count <= MOST_BROADCAST:  # else all keys of the table are joined, far more than rows
            matches = keep(matches)
    # None but logs delete keys and leave them there.
    if index.is_global or any(slice_.logs for slice_ in slices):
        matches = _choose(target, rows, matches, deletes=deletes, compares=compares)
    else:
        matches = _as_targets(matches, anywhere=anywhere)
    ids = [RECORD_KEY] if anywhere else [RECORD_KEY, PARTITION_PATH]
    matches = matches.drop(PARTITION_PATH) if anywhere else matches
    tagged_rows = rows.frame.join(matches.hint("shuffle_hash"), ids, "left")
    own = sf.col(PARTITION_PATH)
    tagged_rows = tagged_rows.withColumn(PARTITION, sf.coalesce(PARTITION, own)).fillna(
        NEW, [LABEL]
    )
    if index.is_global:
        tagged_rows = tagged_rows.filter(sf.col(LABEL) != _DROP_LABEL).fillna(False, [IS_DELETED])
    else:
        tagged_rows = tagged_rows.drop(IS_DELETED)
    return keep(tagged_rows) if count > MOST_BROADCAST or index.is_global else tagged_rows


def _as_targets(matches: DataFrame, *, anywhere: bool) -> DataFrame:
    """Where each key was found is where its rows go; without `anywhere`, in that partition."""
    own = sf.lit(None).cast("string") if anywhere else sf.col(PARTITION)
    return matches.withColumns({PARTITION_PATH: own, IS_DELETED: sf.lit(False)}).drop(ALIVE)


def _choose(
    target: WriteTarget,
    rows: PreparedRows,
    stored_rows: DataFrame,
    *,
    deletes: bool,
    compares: bool,
) -> DataFrame:
    """Run the index's rule on all that was found of each key, in Python workers."""
    merge, anywhere = target.ref.properties.merge, rows.in_all_partitions
    rule = keep_live_matches if deletes else target.index.choose
    incoming = rows.frame.select(RECORD_KEY, PARTITION_PATH)
    if compares:
        order = ordering_of(rows.schema, merge)
        incoming = rows.frame.select(RECORD_KEY, PARTITION_PATH, order.alias(_INCOMING_ORDER))
        stored_rows = stored_rows.withColumn(_STORED_ORDER, order)
        stored_rows = stored_rows.select(RECORD_KEY, PARTITION, LABEL, ALIVE, _STORED_ORDER)
    is_near = sf.lit(True)
    if not (anywhere or target.index.is_global):
        is_near = sf.col(PARTITION) == sf.col(PARTITION_PATH)
    matches = incoming.distinct().join(stored_rows.hint("shuffle_hash"), RECORD_KEY).filter(is_near)

    def choose(batches: Iterable[Any]) -> Iterable[Any]:
        tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        if tables:
            all_matches = _with_plain_text(pa.concat_tables(tables))
            targets = choose_targets(all_matches, rule, anywhere=anywhere)
            yield from targets.combine_chunks().to_batches()

    return matches.repartition(RECORD_KEY).mapInArrow(choose, _TARGETS)


def choose_targets(
    matches: pa.Table, rule: Callable[[Matches], Targets], *, anywhere: bool
) -> pa.Table:
    """Destinations for keys of which this is all that was found: what a worker runs.

    `anywhere`: rows do not tell their partition, so that every slice counts as in their own.
    """
    own = pc.fill_null(
        pc.equal(matches.column(PARTITION), matches.column(PARTITION_PATH)), anywhere
    )
    entries = np.arange(matches.num_rows, dtype=np.int64)
    row_of, first = _number_rows(matches)
    alive = to_flags(matches.column(ALIVE))
    targets = rule(Matches(row_of, entries, alive, to_flags(own), _are_newer(matches)))
    goes, moves = targets.slices != NEW_FILE_GROUP, targets.slices == NEW_FILE_GROUP
    own_partition = matches.column(PARTITION_PATH)
    new = matches.set_column(matches.column_names.index(PARTITION), PARTITION, own_partition)
    return pa.concat_tables(
        [
            _destinations(matches, targets.slices[goes], targets.deletes[goes]),
            _destinations(new, first[targets.rows[moves]], label=NEW),
            _destinations(matches, first[targets.dropped_rows], label=_DROP_LABEL),
        ]
    )


def _destinations(
    matches: pa.Table, entries: Positions, deletes: Flags | None = None, label: str | None = None
) -> pa.Table:
    """These entries as rows of `_TARGETS`."""
    targets = matches.take(pa.array(entries))
    return pa.table(
        {
            RECORD_KEY: targets.column(RECORD_KEY),
            PARTITION_PATH: targets.column(PARTITION_PATH),
            PARTITION: targets.column(PARTITION),
            LABEL: targets.column(LABEL) if label is None else pa.repeat(label, len(entries)),
            IS_DELETED: np.zeros(len(entries), bool) if deletes is None else deletes,
        }
    )


def _number_rows(matches: pa.Table) -> tuple[Positions, Positions]:
    """For each entry the number of its row, and for each row its first entry."""
    partitions = pc.fill_null(one_array(matches.column(PARTITION_PATH)), "")
    ids = pc.binary_join_element_wise(one_array(matches.column(RECORD_KEY)), partitions, "\0")
    codes = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return codes, first


def _are_newer(matches: pa.Table) -> Flags:
    if _STORED_ORDER not in matches.column_names:
        return np.zeros(matches.num_rows, bool)
    stored_values, incoming = (
        one_array(matches.column(name)).flatten() for name in (_STORED_ORDER, _INCOMING_ORDER)
    )
    return are_greater(stored_values, incoming)


def _with_plain_text(matches: pa.Table) -> pa.Table:
    """The session may send texts as large ones (`arrow.useLargeVarTypes`)."""
    for name in (RECORD_KEY, PARTITION_PATH, PARTITION, LABEL):
        at = matches.column_names.index(name)
        matches = matches.set_column(at, name, matches.column(name).cast(pa.string()))
    return matches
