"""Buckets of keys are Java's: against numbers that a JVM gave, and a plain reading of the rule."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hoodoo.errors import InputError
from hoodoo.model.keys import MOST_BUCKETS, BucketRule, bucket_file_id, bucket_of
from hoodoo.model.names import FileId
from hoodoo.write.index import bucket_hash
from hoodoo.write.index.bucket_hash import bucket_numbers

# Text, and `(Arrays.asList(text).hashCode() & Integer.MAX_VALUE) % 256`, by OpenJDK 17.
BY_A_JVM = {
    "": 31,
    "a": 128,
    "trip-000042": 69,
    "3f2504e0-4f89-11d3-9a0c-0305e82cca41": 172,
    "na\u00efve": 106,
    "\u4e2d\u6587": 25,
    "\U0001d11e clef": 223,
    "\uffee\U0001f600": 240,
    "polygenelubricants": 31,
    "\0": 31,
    "a\0b": 162,
    "Z" * 32: 31,
}


def numbers(keys: list[str], fields: str = "id", count: int = 1000) -> list[int]:
    found = bucket_numbers(pa.array(keys, pa.string()), BucketRule(count, tuple(fields.split(","))))
    assert found.dtype == np.int32
    return list(found.tolist())


def test_plain_keys() -> None:
    assert numbers(list(BY_A_JVM), count=256) == list(BY_A_JVM.values())
    assert numbers([]) == []


def test_parts_of_composite_keys() -> None:
    """A JVM gives 600 for the list of "1" and "x", 151 for "x" alone, 961 for null and ""."""
    assert numbers(["a:1,b:x"], "a,b") == numbers(["a:1,b:x"], "b,a") == [600]
    assert numbers(["a:1,b:x", "b:x,c:1", "c:1:2,b:x"], "b") == [151, 151, 151]
    assert numbers(["a:__null__,b:__empty__"], "a,b") == [961]
    assert numbers(["a:,b:__null__"], "a,b") == [961]


def test_keys_that_are_not_taken_apart() -> None:
    """One field alone, or no field of that name: the text as a whole counts."""
    whole = ["a:1", "1,2", "x:1,y:2", "10:30, or later", "__null__"]
    assert numbers(whole, "a") == [java_list_hash([key]) % 1000 for key in whole]


def test_null_keys_are_refused() -> None:
    with pytest.raises(InputError):
        bucket_numbers(pa.array(["a", None]), BucketRule(4, ("id",)))


# -- the rule, one key at a time --------------------------------------------------------------


def java_hash(text: str) -> int:
    units = text.encode("utf-16-le")
    total = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        total = (31 * total + low + 256 * high) % 2**32
    return total


def java_list_hash(texts: list[str]) -> int:
    total = 1
    for text in texts:
        total = (31 * total + java_hash(text)) % 2**32
    return total & (2**31 - 1)


def parts(key: str) -> Iterator[tuple[str, str]]:
    """Names and values; a value ends before the last comma ahead of a colon that follows one."""
    while key:
        name, _, rest = key.partition(":")
        first_comma = rest.find(",")
        next_colon = rest.find(":", first_comma) if first_comma >= 0 else -1
        end = rest.rfind(",", 0, next_colon) if next_colon >= 0 else len(rest)
        yield name, rest[:end]
        key = rest[end + 1 :]


def expected_bucket(key: str, fields: tuple[str, ...]) -> int:
    chosen = []
    if "," in key and ":" in key:
        chosen = [value for name, value in parts(key) if name in fields]
        chosen = ["" if value in ("__null__", "__empty__") else value for value in chosen]
    return java_list_hash(chosen or [key])


PIECE = st.sampled_from(["a", "b", ":", ",", "__null__", "__empty__", "é", "\U0001f600", "xyz"])
KEYS = st.lists(st.lists(PIECE, max_size=12).map("".join), max_size=30)


@given(KEYS, st.sampled_from(["a", "b", "a,b", "aa"]), st.sampled_from([1, 7, MOST_BUCKETS]))
@example(["a:1,b:x,y:z,b:2"], "b", 7)
@example(["b::,:,a:", ",:", ":,"], "a,b", 7)
def test_any_keys(keys: list[str], fields: str, count: int) -> None:
    rule = tuple(fields.split(","))
    assert numbers(keys, fields, count) == [expected_bucket(key, rule) % count for key in keys]


@given(st.lists(st.text(max_size=8), max_size=40), st.integers(1, 60))
def test_batches_do_not_show(keys: list[str], batch_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_hash, "_BATCH_BYTES", batch_bytes)
        found = numbers(keys, "a", 97)
    assert found == [expected_bucket(key, ("a",)) % 97 for key in keys]


def test_slices_and_chunks() -> None:
    keys = pa.array([f"key-{n}" for n in range(100)])
    rule = BucketRule(64, ("id",))
    whole = bucket_numbers(keys, rule)
    assert (bucket_numbers(keys[30:60], rule) == whole[30:60]).all()
    chunked = pa.chunked_array([keys[:10], keys[10:10], keys[10:]])
    assert (bucket_numbers(chunked, rule) == whole).all()
    assert (bucket_numbers(keys.cast(pa.large_string()), rule) == whole).all()


# -- file ids ---------------------------------------------------------------------------------


def test_file_ids_tell_their_bucket() -> None:
    text = str(uuid.UUID(int=0x27DC463C8ED42402A7ADEB8727DC463C))
    made = bucket_file_id(3, text)
    assert made == "00000003-8ed4-2402-a7ad-eb8727dc463c-0"
    assert bucket_of(made) == 3
    assert bucket_of(bucket_file_id(MOST_BUCKETS, text)) == MOST_BUCKETS


@pytest.mark.parametrize(
    ("file_id", "bucket"),
    [
        ("00000001-5a75-442c-b2ce-1ce10b333027", 1),  # a bulk insert of Apache Hudi's
        ("27dc463c-8ed4-2402-a7ad-eb8727dc463c-0", None),
        ("0000001", None),
        ("-0000001-5a75", None),
        ("٠٠٠٠٠٠٠١-5a75", None),
    ],
)
def test_buckets_of_any_file_id(file_id: str, bucket: int | None) -> None:
    assert bucket_of(FileId(file_id)) == bucket
