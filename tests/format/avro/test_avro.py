"""Avro containers: ours read by fastavro, fastavro's read by us, and bad ones refused."""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi_files import is_container, timeline_files

from hoodoo.errors import FormatError
from hoodoo.format.avro import container as avro
from hoodoo.format.avro.container import check_schema

PAIR = {
    "type": "record",
    "name": "Pair",
    "namespace": "some.where",
    "fields": [{"name": "text", "type": ["null", "string"]}, {"name": "number", "type": "long"}],
}
PAIR_JSON = json.dumps(PAIR)
RECORD = {"text": "grün", "number": -5}


def varint(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def container(
    schema: Any, *, body: bytes, count: int = 1, size: int | None = None, codec: bytes | None = None
) -> bytes:
    """A container put together by hand, so that it may be wrong."""
    entries = {b"avro.schema": json.dumps(schema).encode()}
    if codec is not None:
        entries[b"avro.codec"] = codec
    header = varint(len(entries)) + b"".join(
        varint(len(key)) + key + varint(len(value)) + value for key, value in entries.items()
    )
    sync = bytes(range(16))
    length = len(body) if size is None else size
    block = varint(count) + varint(length) + body
    return b"Obj\x01" + header + varint(0) + sync + block + sync


def record_of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


@given(st.text(max_size=300) | st.none(), st.integers(-(2**63), 2**63 - 1))
def test_fastavro_reads_what_we_write(text: str | None, number: int) -> None:
    record = {"text": text, "number": number}
    data = avro.write(PAIR_JSON, record)
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader) == [record]
    assert list(reader.metadata) == ["avro.schema"]
    assert avro.read_one(data) == ("Pair", record)


def test_same_value_same_bytes() -> None:
    first, again = avro.write(PAIR_JSON, RECORD), avro.write(PAIR_JSON, dict(RECORD))
    other = avro.write(PAIR_JSON, RECORD | {"number": 4})
    assert first == again
    assert first[-16:] != other[-16:]
    assert first[-16:] == first[first.index(b"}]}") + 4 :][:16]


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("sync_interval", [1, 16000])
@given(st.lists(st.text(max_size=20), max_size=5))
def test_we_read_what_fastavro_writes(codec: str, sync_interval: int, texts: list[str]) -> None:
    records = [{"text": text, "number": number} for number, text in enumerate(texts)]
    out = io.BytesIO()
    fastavro.writer(out, PAIR, records, codec=codec, sync_interval=sync_interval)
    found = avro.read(out.getvalue())
    assert found == avro.Container("Pair", tuple(records))


def test_a_map_may_come_in_blocks_with_their_size() -> None:
    data = avro.write(PAIR_JSON, RECORD)
    schema = PAIR_JSON.encode()
    entry = varint(11) + b"avro.schema" + varint(len(schema)) + schema
    assert data[4 : 5 + len(entry)] == varint(1) + entry
    other = data[:4] + varint(-1) + varint(len(entry)) + entry + data[5 + len(entry) :]
    assert avro.read_one(other) == ("Pair", RECORD)


def test_all_types_decode_without_logical_types() -> None:
    kinds: list[Any] = [
        "boolean",
        "int",
        "float",
        "double",
        "bytes",
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "fixed", "name": "four", "size": 4},
        {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
        "Colour",
        {"type": "array", "items": ["null", "Colour"]},
        {"type": "map", "values": {"type": "array", "items": "int"}},
    ]
    values = [True, 7, 0.5, 0.25, b"b", 5, b"four", "BLUE", "RED", [None, "RED"], {"k": [1]}]
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    schema = {"type": "record", "name": "All", "namespace": "x.y", "fields": fields}
    record = {f"f{number}": value for number, value in enumerate(values)}
    out = io.BytesIO()
    fastavro.writer(out, schema, [record])
    assert avro.read_one(out.getvalue()) == ("All", record)


def test_a_type_may_be_wrapped_in_a_type() -> None:
    schema = record_of({"type": {"type": ["null", {"type": {"type": "string"}}]}})
    assert avro.read_one(container(schema, body=b"\x02\x02t"))[1] == {"f": "t"}


def test_a_value_that_does_not_fit_is_not_written() -> None:
    for wrong in ({"number": "x"}, {"number": 2**70}, {"number": 1, "text": "\ud800"}):
        with pytest.raises(FormatError, match="cannot be written"):
            avro.write(PAIR_JSON, wrong)


def test_exactly_one_record() -> None:
    body = avro.encode_record(PAIR_JSON, RECORD)
    for count in (0, 2):
        data = container(PAIR, body=body * count, count=count)
        assert len(avro.read(data).records) == count
        with pytest.raises(FormatError, match=f"holds {count} records, not one"):
            avro.read_one(data)


BODY = avro.encode_record(PAIR_JSON, RECORD)
GOOD = container(PAIR, body=BODY)
HUGE = 2**62


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an Avro container"),
        (b"PAR1", "not an Avro container"),
        (b"{}", "not an Avro container"),
        (b"Obj\x01" + varint(HUGE), "ends early"),
        (b"Obj\x01" + varint(-(2**63)) + varint(0), "ends early"),
        (b"Obj\x01" + varint(1) + varint(HUGE), "ends early"),
        (b"Obj\x01" + varint(1) + varint(-1), "ends early"),
        (b"Obj\x01" + b"\xff" * 20, "longer than ten bytes"),
        (b"Obj\x01" + varint(0) + bytes(16), "without a schema"),
        (container(PAIR, body=BODY, size=HUGE), "ends early"),
        (container(PAIR, body=BODY, size=-1), "ends early"),
        (container(PAIR, body=BODY, size=len(BODY) - 1), "sync marker"),
        (container(PAIR, body=BODY, count=HUGE), "claims"),
        (container(PAIR, body=BODY, count=-1), "claims"),
        (container(PAIR, body=BODY, count=2), "does not fit its schema"),
        (container(PAIR, body=BODY + b"\0"), "1 bytes too many"),
        (container(PAIR, body=BODY, codec=b"snappy"), "snappy"),
        (container(PAIR, body=BODY, codec=b"deflate"), "bad deflated"),
        (container(PAIR, body=zlib.compress(BODY, wbits=-15)[:-2], codec=b"deflate"), "cut off"),
        (container(PAIR, body=b"\x08" + BODY), "does not fit"),
        (container(record_of("string"), body=varint(HUGE) + b"x"), "does not fit"),
        (container(record_of("string"), body=varint(2) + b"\xff\xfe"), "does not fit"),
        (container(record_of({"type": "array", "items": "long"}), body=varint(HUGE)), "not fit"),
        (container("string", body=b"\0"), "else than records"),
        (container(["null", PAIR], body=b"\0"), "else than records"),
        (GOOD + b"\0", "ends early"),
        (GOOD.replace(b'"number"', b'"text"  '), "two fields of one name"),
        (GOOD.replace(b'{"type"', b'{"ty\xffe"', 1), "bad Avro schema"),
    ],
)
def test_bad_containers(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        avro.read(data)


def test_a_small_file_cannot_blow_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zlib.compress(varint(100_000) + b"a" * 100_000, level=9, wbits=-15)
    data = container(record_of("string"), body=bomb, codec=b"deflate")
    assert len(data) < 1000
    assert len(avro.read_one(data)[1]["f"]) == 100_000
    monkeypatch.setattr(avro, "_INFLATED_LIMIT", 50_000)
    with pytest.raises(FormatError, match="absurdly large"):
        avro.read(data)


def chain(length: int) -> list[Any]:
    """Records, each with the one before it inside."""
    first: dict[str, Any] = {"type": "record", "name": "R0"}
    first["fields"] = [{"name": "f", "type": "int"}]
    rest = [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "f", "type": f"R{n - 1}"}]}
        for n in range(1, length)
    ]
    return [first, *rest]


def nest(depth: int) -> Any:
    return {"type": "array", "items": nest(depth - 1)} if depth else "int"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record_of(["null", "R"]), "'R' contains itself"),
        (record_of({"type": "array", "items": "R"}), "contains itself"),
        (record_of({"type": "array", "items": "null"}), "'null' in place of a type"),
        (record_of("null"), "in place of a type"),
        (record_of({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "size"),
        (record_of({"type": "fixed", "name": "F", "size": "9"}), "size '9'"),
        ({"type": "record", "name": "R", "fields": []}, "no fields"),
        ({"type": "record", "name": "R", "fields": [1]}, "field without a name"),
        ({"type": "record", "fields": [{"name": "f", "type": "int"}]}, "the name None"),
        ({"type": "record", "name": "R", "namespace": 1}, "the name 'R'"),
        (record_of("Unknown"), "'Unknown' in place of a type"),
        (record_of(None), "None in place of a type"),
        (record_of({"type": "array"}), "None in place of a type"),
        (record_of(record_of("int")), "'R' twice"),
        (record_of(nest(70)), "nests deeper than 64"),
        (record_of(chain(70)), "nests deeper than 64"),
        (5, "5 in place of a type"),
    ],
)
def test_schemas_that_could_do_harm(schema: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        check_schema(schema)


def test_schemas_as_deep_as_allowed() -> None:
    assert check_schema(record_of(nest(60)))["name"] == "R"
    assert len(check_schema(record_of(chain(60)))["fields"][0]["type"]) == 60


def test_a_schema_nested_too_deep_for_the_json_parser() -> None:
    data = container(PAIR, body=BODY)
    deep = b'{"type":' * 200_000
    header = varint(1) + varint(11) + b"avro.schema" + varint(len(deep)) + deep + varint(0)
    with pytest.raises(FormatError, match="bad Avro schema"):
        avro.read(b"Obj\x01" + header + data[-16:])


def test_names_resolve_in_their_namespace() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "a.b.O",
        "fields": [{"name": "x", "type": inner}, {"name": "y", "type": "I"}],
    }
    assert [field["type"] for field in check_schema(schema)["fields"]][1] == "a.b.I"
    assert avro.read_one(container(schema, body=b"\x02\x04"))[1] == {"x": {"n": 1}, "y": {"n": 2}}


def test_cut_and_flipped_fixtures(fixtures: Path) -> None:
    """Real files, cut anywhere: an error. One bit changed: an error, or another record."""
    cut = flipped = 0
    for number, (_, _, data) in enumerate(timeline_files(fixtures)):
        if not is_container(data) or number % 12:
            continue
        for end in range(0, len(data), 97):
            with pytest.raises(FormatError):
                avro.read_one(data[:end])
            cut += 1
        for place in range(number % 89, len(data), 89):
            changed = bytearray(data)
            changed[place] ^= 1 << (place % 8)
            with contextlib.suppress(FormatError):
                avro.read_one(bytes(changed))
            flipped += 1
    assert cut > 1000
    assert flipped > 1000
