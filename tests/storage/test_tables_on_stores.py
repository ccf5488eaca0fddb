"""Whole tables on each store: written, read, read by the wheel; unsafe stores refused."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodoo
from hoodoo.errors import NoSuchTable, StorageError, TableExists
from hoodoo.model import paths
from hoodoo.storage.object_store import ObjectStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.object_stores import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def rows(first: int, last: int, v: float) -> pa.Table:
    ids = list(range(first, last))
    return pa.table([ids, [f"p{i % 3}" for i in ids], [v] * len(ids)], schema=SCHEMA)


def history(uri: str, kind: str, options: dict[str, str]) -> hoodoo.Table:
    table = hoodoo.create_table(
        uri, schema=SCHEMA, record_key="id", partition_by="p", table_type=kind, options=options
    )
    first = table.insert(rows(0, 3000, 1.0))
    table.upsert(rows(1000, 3500, 2.0))
    table.delete(list(range(500)))
    assert table.to_arrow(as_of=first.instant).num_rows == 3000
    found = hoodoo.open_table(uri, options=options).to_arrow(columns=["id", "v"])
    values = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert values == {i: 1.0 if i < 1000 else 2.0 for i in range(500, 3500)}
    with pytest.raises(TableExists):
        hoodoo.create_table(uri, schema=SCHEMA, record_key="id", options=options)
    return table


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_table_history_in_memory(kind: str) -> None:
    history(f"memory://stores-{kind}/a/table", kind, {})


@pytest.mark.server
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_table_history_on_s3_is_read_by_the_hudi_wheel(s3: S3Server, kind: str) -> None:
    options = dict(s3.options)
    uri = s3.uri(f"deep/er/{kind}")
    table = history(uri, kind, options)
    wheel = HudiTableBuilder.from_base_uri(uri).with_options(options).build()
    theirs = pa.Table.from_batches(wheel.read()).select(table.to_arrow().column_names)
    order = [("id", "ascending")]
    assert theirs.sort_by(order).to_pylist() == table.to_arrow().sort_by(order).to_pylist()
    with pytest.raises(NoSuchTable):
        hoodoo.open_table(s3.uri("nothing/here"), options=options)


@pytest.mark.server
def test_an_executor_rebuilds_an_opened_table(s3: S3Server) -> None:
    uri = s3.uri("pickled")
    history(uri, "cow", dict(s3.options))
    ref = pickle.loads(pickle.dumps(open_ref(uri, dict(s3.options))))
    assert len(ref.load_timeline().commits) == 3


@pytest.mark.server
def test_uploads_end_before_their_writer_counts_as_dead(s3: S3Server) -> None:
    """Half the silence after which it is dead, by the settings that its heartbeat goes by."""
    uri, options = s3.uri("limits"), dict(s3.options)
    beats = {
        "hoodie.client.heartbeat.interval_in_ms": "20000",
        "hoodie.client.heartbeat.tolerable.misses": "3",
    }

    def limit_s(ref: TableRef) -> float | None:
        executors = pickle.loads(pickle.dumps(ref)).env.storage
        assert isinstance(executors, ObjectStorage)
        return executors._upload_limit_s

    made = create_table(uri, schema=SCHEMA, record_key="id", options={**options, **beats})
    assert limit_s(made) == 30
    assert limit_s(open_ref(uri, options)) == 300
    assert limit_s(open_ref(uri, {**options, **beats})) == 30

    storage = made.env.storage
    lines = "".join(f"{key}={value}\n" for key, value in beats.items())
    storage.put(paths.PROPERTIES, storage.read(paths.PROPERTIES) + lines.encode())
    assert limit_s(open_ref(uri, options)) == 30


@pytest.mark.server
def test_a_store_that_ignores_conditions_is_not_written_to(careless_s3: S3Server) -> None:
    options = dict(careless_s3.options)
    uri = careless_s3.uri("unsafe")
    with pytest.raises(StorageError, match="ignores conditions"):
        hoodoo.create_table(uri, schema=SCHEMA, record_key="id", options=options)
    with pytest.raises(NoSuchTable):
        hoodoo.open_table(uri, options=options)
