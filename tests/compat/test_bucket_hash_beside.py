"""Buckets of keys, beside Apache Hudi's own class."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from support.hudi_classes import HudiClasses

from hoodoo.model.keys import BucketRule, bucket_file_id, bucket_of
from hoodoo.write.index.bucket_hash import bucket_numbers

WORDS = [
    "1",
    "x",
    "y:z",
    "p,q",
    ",",
    "",
    "__null__",
    "__empty__",
    "naïve",
    "中文",
    "\U0001f600",
    "\0",
]
# A value with a colon at the end of a key, of a field that is not hashed: Hudi does not come back.
TAME = [word for word in WORDS if ":" not in word]


def plain() -> list[str]:
    return [*WORDS, "a:1", "a:1,2", "10:30", "10:30,x", f"{random.Random(7).random()}"]


def composite() -> list[str]:
    names = ["id", "n", "naïve"]
    chance = random.Random(11)
    return [
        ",".join(f"{name}:{chance.choice(TAME if name == names[-1] else WORDS)}" for name in names)
        for _ in range(300)
    ]


@pytest.mark.parametrize("fields", ["id", "n", "naïve", "id,n", "n,id", "id,n,naïve", "other"])
@pytest.mark.parametrize("keys", [plain(), composite()], ids=["plain", "composite"])
def test_buckets_are_those_of_hudi(classes: HudiClasses, keys: list[str], fields: str) -> None:
    rule = BucketRule(997, tuple(fields.split(",")))
    assert bucket_numbers(pa.array(keys), rule).tolist() == [
        classes.bucket(key, fields, rule.count) for key in keys
    ]


def test_file_ids_are_read_by_hudi(classes: HudiClasses) -> None:
    for number in (0, 7, 12_345_678):
        made = bucket_file_id(number, "27dc463c-8ed4-2402-a7ad-eb8727dc463c")
        assert classes.bucket_of_file(made) == bucket_of(made) == number
