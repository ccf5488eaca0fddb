"""Writes of many rows: keys and rows stay in Spark, and the index's rules come to them.

Rows get `PLACE` and `LABEL`, the destination of their key. Labels that are computed from keys alone
are the numbers of buckets (`bucket_hash`). For an index that searches files, the keys of the files
are joined with the incoming ones; one that looks keys up has workers ask for them (`look_up_keys`).
Where a rule has to choose between several finds of a key, workers run it on shares of the keys. A
key that several file groups have comes back once for each.
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
from hoodoo.index.matches import IN_NEW, Flags, Matches, Positions, Targets, keep_alive
from hoodoo.model.file_group_write import NEW
from hoodoo.rows.merge import are_greater, one_array, to_flags
from hoodoo.spark.bucket_hash import number_buckets
from hoodoo.spark.columns import DELETED, LABEL, PLACE
from hoodoo.spark.frames import to_frame
from hoodoo.spark.look_up_keys import add_stored_rows, look_up_keys
from hoodoo.spark.prepare import Rows, keep_one_per_key, ordering_of
from hoodoo.spark.stored_keys import (
    ALIVE,
    MOST_BROADCAST,
    find_in_slices,
    keep_incoming_keys,
    read_stored_keys,
    read_stored_rows,
)
from hoodoo.write.assignment import Target

Keep = Callable[[DataFrame], DataFrame]

_STORED, _INCOMING = "_hoodoo_stored", "_hoodoo_incoming"
_DROPPED = "dropped"
"""The label of rows that go nowhere."""
_TARGETS = (
    f"{RECORD_KEY} string, {PARTITION_PATH} string, {PLACE} string, {LABEL} string, "
    f"{DELETED} boolean"
)


def tag_new(target: Target, rows: DataFrame) -> DataFrame:
    """Rows that are new whatever keys there are, with their destination."""
    place = {PLACE: sf.col(PARTITION_PATH)}
    if target.index.searches_files:
        return rows.withColumns({**place, LABEL: sf.lit(NEW)})
    return rows.withColumns({**place, LABEL: _labels(target)})


def tag(
    spark: SparkSession,
    target: Target,
    rows: Rows,
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
    tagged = _tag_by_search(spark, target, rows, counts, keep, deletes=deletes)
    return tagged.filter(sf.col(LABEL) != NEW) if deletes else tagged


def _tag_by_label(spark: SparkSession, target: Target, rows: Rows, *, deletes: bool) -> DataFrame:
    """Rows by the label of their key; those that tell no partition, for each that there is."""
    present = target.index.destinations(target.snapshot.slices())
    if rows.in_all_partitions:
        places = sorted({destination.partition for destination in present})
        every = to_frame(spark, pa.table({PLACE: pa.array(places, pa.string())}))
        tagged = rows.frame.withColumn(LABEL, _labels(target)).crossJoin(sf.broadcast(every))
    else:
        tagged = tag_new(target, rows.frame)
    if not deletes:
        return tagged
    columns = {
        PLACE: pa.array([destination.partition for destination in present], pa.string()),
        LABEL: pa.array([destination.label for destination in present], pa.string()),
    }
    destinations = sf.broadcast(to_frame(spark, pa.table(columns)))
    return tagged.join(destinations, [PLACE, LABEL], "left_semi")


def _labels(target: Target) -> Column:
    """The labels of keys; those of buckets by Spark itself, where it can."""
    assert target.index.buckets is not None
    fields = target.ref.properties.keys.record_fields
    numbers = number_buckets(sf.col(RECORD_KEY), target.index.buckets, fields)
    return numbers.cast("string")


def _tag_by_search(
    spark: SparkSession,
    target: Target,
    rows: Rows,
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
        stored = add_stored_rows(spark, snapshot, matches, rows.frame) if compares else None
        matches, compares = (stored, True) if stored is not None else (matches, False)
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
    tagged = rows.frame.join(matches.hint("shuffle_hash"), ids, "left")
    own = sf.col(PARTITION_PATH)
    tagged = tagged.withColumn(PLACE, sf.coalesce(PLACE, own)).fillna(NEW, [LABEL])
    if index.is_global:
        tagged = tagged.filter(sf.col(LABEL) != _DROPPED).fillna(False, [DELETED])
    else:
        tagged = tagged.drop(DELETED)
    return keep(tagged) if count > MOST_BROADCAST or index.is_global else tagged


def _as_targets(matches: DataFrame, *, anywhere: bool) -> DataFrame:
    """Where each key was found is where its rows go; without `anywhere`, in that partition."""
    own = sf.lit(None).cast("string") if anywhere else sf.col(PLACE)
    return matches.withColumns({PARTITION_PATH: own, DELETED: sf.lit(False)}).drop(ALIVE)


def _choose(
    target: Target, rows: Rows, stored: DataFrame, *, deletes: bool, compares: bool
) -> DataFrame:
    """Run the index's rule on all that was found of each key, in Python workers."""
    merge, anywhere = target.ref.properties.merge, rows.in_all_partitions
    rule = keep_alive if deletes else target.index.choose
    incoming = rows.frame.select(RECORD_KEY, PARTITION_PATH)
    if compares:
        order = ordering_of(rows.schema, merge)
        incoming = rows.frame.select(RECORD_KEY, PARTITION_PATH, order.alias(_INCOMING))
        stored = stored.withColumn(_STORED, order)
        stored = stored.select(RECORD_KEY, PLACE, LABEL, ALIVE, _STORED)
    is_near = sf.lit(True)
    if not (anywhere or target.index.is_global):
        is_near = sf.col(PLACE) == sf.col(PARTITION_PATH)
    matches = incoming.distinct().join(stored.hint("shuffle_hash"), RECORD_KEY).filter(is_near)

    def choose(batches: Iterable[Any]) -> Iterable[Any]:
        tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        if tables:
            found = _with_plain_text(pa.concat_tables(tables))
            targets = choose_targets(found, rule, anywhere=anywhere)
            yield from targets.combine_chunks().to_batches()

    return matches.repartition(RECORD_KEY).mapInArrow(choose, _TARGETS)


def choose_targets(
    matches: pa.Table, rule: Callable[[Matches], Targets], *, anywhere: bool
) -> pa.Table:
    """Destinations for keys of which this is all that was found: what a worker runs.

    `anywhere`: rows do not tell their partition, so that every slice counts as in their own.
    """
    own = pc.fill_null(pc.equal(matches.column(PLACE), matches.column(PARTITION_PATH)), anywhere)
    entries = np.arange(matches.num_rows, dtype=np.int64)
    row_of, first = _number_rows(matches)
    alive = to_flags(matches.column(ALIVE))
    targets = rule(Matches(row_of, entries, alive, to_flags(own), _are_newer(matches)))
    goes, moves = targets.slices != IN_NEW, targets.slices == IN_NEW
    own_partition = matches.column(PARTITION_PATH)
    new = matches.set_column(matches.column_names.index(PLACE), PLACE, own_partition)
    return pa.concat_tables(
        [
            _destinations(matches, targets.slices[goes], targets.deletes[goes]),
            _destinations(new, first[targets.rows[moves]], label=NEW),
            _destinations(matches, first[targets.dropped], label=_DROPPED),
        ]
    )


def _destinations(
    matches: pa.Table, entries: Positions, deletes: Flags | None = None, label: str | None = None
) -> pa.Table:
    """These entries as rows of `_TARGETS`."""
    chosen = matches.take(pa.array(entries))
    return pa.table(
        {
            RECORD_KEY: chosen.column(RECORD_KEY),
            PARTITION_PATH: chosen.column(PARTITION_PATH),
            PLACE: chosen.column(PLACE),
            LABEL: chosen.column(LABEL) if label is None else pa.repeat(label, len(entries)),
            DELETED: np.zeros(len(entries), bool) if deletes is None else deletes,
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
    if _STORED not in matches.column_names:
        return np.zeros(matches.num_rows, bool)
    stored, incoming = (one_array(matches.column(name)).flatten() for name in (_STORED, _INCOMING))
    return are_greater(stored, incoming)


def _with_plain_text(matches: pa.Table) -> pa.Table:
    """The session may send texts as large ones (`arrow.useLargeVarTypes`)."""
    for name in (RECORD_KEY, PARTITION_PATH, PLACE, LABEL):
        at = matches.column_names.index(name)
        matches = matches.set_column(at, name, matches.column(name).cast(pa.string()))
    return matches
