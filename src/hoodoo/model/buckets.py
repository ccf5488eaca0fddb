"""The bucket index: a record key's hash says which file group of its partition it belongs to.

The number of the bucket stands in front of the file id, in eight digits, as Apache Hudi has it:

    00000003-27dc-463c-8ed4-2402a7adeb87-0

`hoodoo.rows.buckets` gives the numbers of whole columns of keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.model.names import FileId

DIGITS = 8
MOST_BUCKETS = 10**DIGITS - 1


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How many buckets a partition has, and the parts of the record key that are hashed."""

    count: int
    fields: tuple[str, ...]


def bucket_file_id(number: int, uuid: str) -> FileId:
    """The id of a new file group for a bucket."""
    return FileId(f"{number:0{DIGITS}d}{uuid[DIGITS:]}-0")


def bucket_of(file_id: FileId) -> int | None:
    """The bucket that a file group belongs to, or None if its id begins with no number."""
    digits = file_id[:DIGITS]
    is_number = len(digits) == DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None


def looks_like_bucket(file_id: FileId) -> bool:
    """Whether a file id is very likely a bucket's: few others begin with so many zeros.

    Of random ids, one in 400,000 has eight digits of which the first four are zeros.
    """
    return file_id.startswith("0000") and bucket_of(file_id) is not None
