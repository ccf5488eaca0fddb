"""What a caller has a commit say beside its files: notes of its own, and which batch it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from hoodoo.errors import InputError
from hoodoo.model.commit import SCHEMA_KEY

BATCHES_KEY = "_hudi_streaming_sink_checkpoint"
"""The key of extra metadata under which Apache Hudi's streaming sink stores batches: a JSON map
from the identifier of an application to the number of its newest batch, both as text."""

_RESERVED = frozenset({SCHEMA_KEY, "latest_schema", BATCHES_KEY})
_OWN_PREFIX = "hoodoo."
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of an application; the numbers of its batches only grow."""

    app: str
    number: int

    def __str__(self) -> str:
        return f"batch {self.number} of {self.app!r}"


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """Extra metadata of the caller's, and the batch that the write is."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    batch: Batch | None = None


class Notes(TypedDict, total=False):
    """What every write takes beside its rows."""

    metadata: Mapping[str, str] | None
    """Texts that become extra metadata of the commit."""
    transaction: tuple[str, int] | None
    """An application, and the id of a batch of it. If that batch is committed already, or a later
    one, then nothing is written: the commit that has it is returned, with `is_skipped`."""


def check_notes(notes: Notes) -> CommitNotes:
    """The notes that these arguments of a write ask for. Raises `InputError`."""
    unknown = sorted(notes.keys() - Notes.__annotations__.keys())
    if unknown:
        raise TypeError(f"a write takes metadata and transaction, not {', '.join(unknown)}")
    metadata, transaction = notes.get("metadata"), notes.get("transaction")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"metadata is a dict of texts, not {type(metadata).__name__}")
    texts = dict(metadata or {})
    for key, value in texts.items():
        if not isinstance(key, str) or not key or not isinstance(value, str):
            raise InputError(f"metadata has texts as keys and values, not {key!r}: {value!r}")
        if key in _RESERVED or key.startswith(_OWN_PREFIX):
            raise InputError(f"metadata: the key {key!r} is reserved")
    return CommitNotes(texts, None if transaction is None else _check_batch(transaction))


def _check_batch(transaction: object) -> Batch:
    if not isinstance(transaction, tuple) or len(transaction) != 2:
        raise InputError(f'transaction is a pair ("app", batch_id), not {transaction!r}')
    app, number = transaction
    if not isinstance(app, str) or not app:
        raise InputError(f"transaction: the application is a text, not {app!r}")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < _MOST:
        raise InputError(f"transaction: the batch id is an integer from 0 on, not {number!r}")
    return Batch(app, number)
