"""Files put together out of column chunks of others read as if they had been written at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo.errors import FormatError
from hoodoo.format.parquet.base_file import (
    BaseFileWriter,
    ParquetOptions,
    can_copy_to,
    open_parquet,
)
from hoodoo.format.parquet.column_chunks import ColumnChunk, ParquetAssembler
from hoodoo.format.parquet.thrift import (
    I64,
    LIST_SPAN,
    field_spans,
    list_of,
    read_struct,
    struct_of,
    write_struct,
)
from hoodoo.format.schema import RECORD_KEY

SCHEMA = pa.schema(
    [
        (RECORD_KEY, pa.string()),
        ("number", pa.int64()),
        ("word", pa.string()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("point", pa.struct([("x", pa.float64()), ("y", pa.bool_())])),
    ]
)


def table(count: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = random.integers(-(2**60), 2**60, count).tolist()
    return pa.table(
        [
            [f"k{seed}-{n}" for n in range(count)],
            [None if n % 7 == 0 else n for n in numbers],
            [None if n % 5 == 0 else f"word{n % 9}" for n in numbers],
            [[f"t{n % 3}"] * (n % 4) for n in numbers],
            [{"x": n / 3, "y": n % 2 == 0} for n in numbers],
        ],
        schema=SCHEMA,
    )


def encode(rows: pa.Table, **options: object) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, store_schema=False, write_page_checksum=True, **options)
    return pa.BufferReader(sink.getvalue())


def copy(source: pa.NativeFile, groups: list[int], changes: dict[str, pa.Array]) -> pa.Buffer:
    """A base file of some row groups of another, with columns changed in all of them."""
    file, sink = open_parquet(source), pa.BufferOutputStream()
    writer = BaseFileWriter(sink, SCHEMA, avro_schema="{}", options=ParquetOptions(), copies=True)
    for group in groups:
        writer.copy_group(file, group, changes.get)
    writer.close()
    return sink.getvalue()


@settings(deadline=None, max_examples=30)
@given(
    count=st.integers(1, 300),
    size=st.integers(1, 120),
    codec=st.sampled_from(["none", "snappy", "gzip", "zstd"]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    data=st.data(),
)
def test_copied_row_groups_read_as_they_did(
    count: int, size: int, codec: str, version: str, dictionary: bool, data: st.DataObject
) -> None:
    rows = table(count)
    source = encode(
        rows,
        row_group_size=size,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(1)],
    )
    before = pq.ParquetFile(source)
    groups = data.draw(st.lists(st.integers(0, before.num_row_groups - 1), max_size=5))
    written = pq.ParquetFile(
        pa.BufferReader(copy(source, groups, {})), page_checksum_verification=True
    )
    expected = [before.read_row_group(group) for group in groups]
    assert written.read() == pa.concat_tables([SCHEMA.empty_table(), *expected])
    assert written.metadata.num_rows == sum(part.num_rows for part in expected)
    for number, group in enumerate(groups):
        old, new = before.metadata.row_group(group), written.metadata.row_group(number)
        for column in range(old.num_columns):
            assert new.column(column).statistics == old.column(column).statistics
            assert not new.column(column).has_offset_index
            assert not new.column(column).has_column_index


def test_a_column_that_changes_is_encoded_and_the_others_are_the_same_bytes() -> None:
    rows = table(500)
    source = encode(rows, compression="gzip")
    words = pa.array([f"new {n}" for n in range(500)])
    written = copy(source, [0], {"word": words})
    got = pq.ParquetFile(pa.BufferReader(written), page_checksum_verification=True)
    assert got.read() == rows.set_column(2, "word", words)
    columns = got.metadata.row_group(0).to_dict()["columns"]
    codecs = {column["path_in_schema"]: column["compression"] for column in columns}
    assert codecs["word"] == "ZSTD"
    assert {codec for path, codec in codecs.items() if path != "word"} == {"GZIP"}
    chunk = got.metadata.row_group(0).column(2).statistics
    assert (chunk.min, chunk.max) == ("new 0", "new 99")
    ((_, before),) = open_parquet(source).chunks.row_groups
    assert b"".join(before[1].read()) in written.to_pybytes()


def test_the_footer_tells_the_keys_of_copied_rows() -> None:
    rows = table(50)
    written = pq.read_metadata(pa.BufferReader(copy(encode(rows, row_group_size=20), [0, 2], {})))
    keys = pc.min_max(pa.concat_tables([rows[:20], rows[40:]])[RECORD_KEY]).as_py()
    assert written.metadata[b"hoodie_min_record_key"].decode() == keys["min"]
    assert written.metadata[b"hoodie_max_record_key"].decode() == keys["max"]


def test_rows_and_copied_row_groups_go_into_one_file() -> None:
    first, second = table(30, 1), table(40, 2)
    sink = pa.BufferOutputStream()
    writer = BaseFileWriter(sink, SCHEMA, avro_schema="{}", options=ParquetOptions(), copies=True)
    writer.write(second)
    writer.copy_group(open_parquet(encode(first)), 0, lambda name: None)
    writer.close()
    read = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert read.num_row_groups == 2
    assert read.read().sort_by(RECORD_KEY) == pa.concat_tables([first, second]).sort_by(RECORD_KEY)


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA.set(1, pa.field("number", pa.int32())),
        SCHEMA.set(1, pa.field("number", pa.int64(), nullable=False)),
        SCHEMA.set(1, pa.field("other", pa.int64())),
        SCHEMA.append(pa.field("more", pa.int64())),
        pa.schema([*SCHEMA][::-1]),
    ],
)
def test_a_file_with_other_columns_is_not_copied(schema: pa.Schema) -> None:
    file = open_parquet(encode(table(3)))
    assert can_copy_to(file, SCHEMA)
    assert not can_copy_to(file, schema)


def test_chunks_that_are_encrypted_or_elsewhere_are_refused() -> None:
    source = encode(table(3))
    chunks = open_parquet(source).chunks
    chunks._metadata[4][0][1][0][8] = {}
    with pytest.raises(FormatError, match="encrypted"):
        _ = chunks.row_groups


def test_a_file_that_ends_within_a_chunk_is_an_error() -> None:
    source = encode(table(3))
    ((_, chunks),) = open_parquet(source).chunks.row_groups
    cut = ColumnChunk(pa.BufferReader(b"PAR1"), chunks[0].metadata)
    with pytest.raises(FormatError, match="ends within"):
        list(cut.read())


def test_statistics_without_a_stated_order_are_dropped() -> None:
    source = open_parquet(encode(table(3)))
    del source.chunks._metadata[7]
    ((_, chunks),) = source.chunks.row_groups
    assert all(12 not in chunk.metadata for chunk in chunks)


def test_a_file_without_row_groups_is_a_file() -> None:
    sink = pa.BufferOutputStream()
    like = open_parquet(encode(table(3))).footer
    ParquetAssembler(sink, like).close({"a": "b"})
    read = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert (read.metadata.num_rows, read.metadata.metadata) == (0, {b"a": b"b"})
    assert read.schema_arrow == SCHEMA


def test_a_struct_is_read_as_it_was_written() -> None:
    kind = struct_of({1: I64, 3: list_of(I64), 40: LIST_SPAN})
    numbers = list(range(-20, 20))
    spans = field_spans(write_struct(kind, {1: -7, 3: numbers}))
    again = write_struct(kind, {1: -(2**62), 40: spans[3]})
    assert read_struct(again) == {1: -(2**62), 40: numbers}
