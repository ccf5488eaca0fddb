"""Small inputs that want much time or memory are refused, or answered, at once.

Each runs in a process of its own, with little time and memory; so all are scaled down.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.bounded import Outcome, run_bounded
from support.hostile import OLD_INSTANT, SCHEMA, new_table, recover, upsert_one_row

import hoodoo
from hoodoo.errors import FormatError, InputError
from hoodoo.format.avro import container as avro
from hoodoo.format.hfile.blocks import decode_block, encode_block
from hoodoo.format.hfile.layout import HFileCodec
from hoodoo.format.timeline import instant_files
from hoodoo.model.instant import Action, State
from hoodoo.model.predicate import parse_filter
from hoodoo.rows.expressions import columns_by_name, parse_expression

MB = 1 << 20
CPU_S = 3
MEMORY = 128 * MB


# -- time --------------------------------------------------------------------------------------


@pytest.fixture
def table_with_empty_markers(tmp_path: Path) -> Path:
    """A dead instant left a batch of markers that a power cut filled with zeros."""
    place = tmp_path / "table"
    new_table(place)
    markers = place / ".hoodie/.temp" / OLD_INSTANT
    markers.mkdir(parents=True)
    (markers / "MARKERS0").write_bytes(bytes(64 << 10))
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    return place


@pytest.mark.parametrize("operation", [recover, upsert_one_row])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.4: the pattern for batches of markers takes quadratic time",
)
def test_zeros_in_a_batch_of_markers_do_not_stop_a_write(
    table_with_empty_markers: Path, operation: Callable[[Path], None]
) -> None:
    outcome = run_bounded(operation, table_with_empty_markers, cpu_s=CPU_S)
    assert outcome == Outcome(ended=True)


def list_of_keys(count: int) -> str:
    """A filter as programs make them."""
    return "id in (" + ",".join(f"'key-{number:08d}'" for number in range(count)) + ")"


def chain_of_terms(count: int) -> str:
    return " or ".join(["fare=1"] * count)


def parse(text: str) -> None:
    parse_filter(text)


@pytest.mark.parametrize(("make", "count"), [(list_of_keys, 100_000), (chain_of_terms, 60_000)])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.4: splitting a filter into words takes quadratic time",
)
def test_a_long_filter_is_parsed_or_refused_at_once(make: Callable[[int], str], count: int) -> None:
    outcome = run_bounded(parse, make(count), cpu_s=CPU_S)
    assert outcome.ended, "it hangs"
    assert outcome.error is None or issubclass(outcome.error, InputError), outcome


# -- depth and length --------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=RecursionError,
    reason="27.4: a deeply nested CASE ends in a RecursionError",
)
def test_a_deeply_nested_case_is_refused() -> None:
    depth = 3_000
    text = "case when fare=1 then " * depth + "1" + " end" * depth
    with pytest.raises(InputError):
        parse_expression(text, columns_by_name(SCHEMA))


@pytest.mark.xfail(
    strict=True,
    raises=RecursionError,
    reason="27.4: a delete by a deeply nested CASE ends in a RecursionError",
)
def test_a_delete_by_a_deeply_nested_case_is_refused(tmp_path: Path) -> None:
    table, depth = new_table(tmp_path / "table"), 400
    with pytest.raises(InputError):
        table.delete(where="case when fare=1 then " * depth + "true" + " end" * depth)


@pytest.mark.xfail(
    strict=True,
    raises=ValueError,
    reason="27.4: a number of thousands of digits ends in a bare ValueError",
)
def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table")
    with pytest.raises(InputError):
        table.to_arrow(filter="fare = " + "1" * 5_000)


# -- memory ------------------------------------------------------------------------------------


def deflated_zeros(megabytes: int, wbits: int) -> bytes:
    """So many megabytes of zeros, packed into little."""
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    pieces = [packer.compress(bytes(MB)) for _ in range(megabytes)]
    return b"".join((*pieces, packer.flush()))


def decode_inflating_block(megabytes: int) -> None:
    """An HFile block that says that it has ten bytes."""
    magic = b"DATABLK*"
    stored = deflated_zeros(megabytes, wbits=31)
    block = encode_block(stored, 10, magic=magic, bytes_per_checksum=1 << 24)
    decode_block(memoryview(block), 0, magic=magic, codec=HFileCodec.GZIP)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.4: an HFile block is inflated past the size that it states",
)
def test_an_hfile_block_is_not_inflated_past_its_size() -> None:
    outcome = run_bounded(decode_inflating_block, 256, memory_bytes=MEMORY)
    assert outcome.error is not None, outcome
    assert issubclass(outcome.error, FormatError), outcome


def as_long(number: int) -> bytes:
    """Avro's own way to write a number that is not negative."""
    rest, digits = number << 1, bytearray()
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(digits) + bytes((rest,))


def with_length(data: bytes) -> bytes:
    return as_long(len(data)) + data


def container(field: object, count: int, block: bytes) -> bytes:
    """An Avro file of a commit with one field, and one deflated block."""
    record = {"type": "record", "name": "HoodieCommitMetadata"}
    schema = json.dumps(record | {"fields": [{"name": "a", "type": field}]})
    header = (b"avro.schema", schema.encode(), b"avro.codec", b"deflate")
    sync = b"s" * 16
    return b"".join(
        (
            avro.MAGIC,
            as_long(2),
            *map(with_length, header),
            as_long(0),
            sync,
            as_long(count),
            with_length(block),
            sync,
        )
    )


def many_small_records(megabytes: int) -> bytes:
    """Millions of records of one byte, where a commit is one record."""
    return container("int", megabytes * MB, deflated_zeros(megabytes, wbits=-15))


def one_long_array(megabytes: int) -> bytes:
    """A commit whose only field is an array of millions of zeros."""
    numbers = as_long(megabytes * MB) + bytes(megabytes * MB) + b"\0"
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    block = packer.compress(numbers) + packer.flush()
    return container({"type": "array", "items": "int"}, 1, block)


def decode_commit(data: bytes) -> None:
    instant_files.decode(data, Action.COMMIT, State.COMPLETED)


@pytest.mark.parametrize(("make", "megabytes"), [(many_small_records, 8), (one_long_array, 32)])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.4: all records and items of an Avro file are decoded before one is wanted",
)
def test_a_commit_of_millions_of_records_is_refused(
    make: Callable[[int], bytes], megabytes: int
) -> None:
    outcome = run_bounded(decode_commit, make(megabytes), memory_bytes=MEMORY)
    assert outcome.error is not None, outcome
    assert issubclass(outcome.error, FormatError), outcome


def read_history(place: str) -> None:
    hoodoo.open_table(place).history()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.4: the history of a table with an Avro bomb on its timeline takes all memory",
)
def test_the_history_of_a_table_with_a_bomb_for_a_commit_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "table"
    new_table(place)
    commit = place / ".hoodie/timeline/20261118000000000_20991118000000001.commit"
    commit.write_bytes(one_long_array(128))
    outcome = run_bounded(read_history, str(place), memory_bytes=4 * MEMORY)
    assert outcome.error is not None, outcome
    assert issubclass(outcome.error, FormatError), outcome
