"""The keys of one file slice: all of them, or which of some keys it has.

Every function here needs nothing but its arguments: executors run them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import add_error_source
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.data import decode_data
from hoodoo.format.parquet.base_file import Footer, open_parquet, read_footer, read_rows
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.files import BaseFile
from hoodoo.read.base_files import SliceReadTask, fit_to_schema, read_base
from hoodoo.read.log_files import read_log_blocks, read_merged_rows
from hoodoo.rows import arrays

Flags = npt.NDArray[np.bool_]

_BEYOND_UTF16 = "[\U00010000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class SliceKeys:
    """Keys of a slice. Logs may have deleted some; `live` has the others, None if that is all.

    A deleted key still belongs to its group: Apache Hudi's index finds it there in the base file,
    and would find it twice if the key were inserted again elsewhere.
    """

    present: pa.Array
    live: pa.Array | None = None

    @property
    def alive(self) -> pa.Array:
        """The keys that were not deleted."""
        return self.present if self.live is None else self.live


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The smallest and the largest key of a base file, in the order of Java's texts."""

    smallest: str
    largest: str

    @property
    def is_plain(self) -> bool:
        """Whether Java's order of the two is everybody's."""
        return not _has_wide_characters(pa.array([self.smallest, self.largest])).any()

    def may_hold(self, keys: pa.Array) -> Flags:
        """For each key, False if it is certainly not in the file.

        Java's order is not Arrow's for characters beyond U+FFFF: keys that have some are never
        ruled out, nor is any by a range that has some.
        """
        if not self.is_plain:
            return np.ones(len(keys), bool)
        inside = pc.and_(
            pc.greater_equal(keys, self.smallest), pc.less_equal(keys, self.largest)
        ).to_numpy(zero_copy_only=False)
        if not pc.all(pc.string_is_ascii(keys)).as_py():
            inside = inside | _has_wide_characters(keys)
        return np.asarray(inside, bool)


def _has_wide_characters(texts: pa.Array) -> Flags:
    has_wide = pc.match_substring_regex(texts, _BEYOND_UTF16)
    return np.asarray(has_wide.to_numpy(zero_copy_only=False), bool)


def find_keys(
    read: SliceReadTask, keys: pa.Array, *, by_range: bool = True, in_base: pa.Array | None = None
) -> pa.Array:
    """Which of the keys are in a slice's files, deleted ones too: they belong to that group.

    `by_range` is whether the range of keys that a base file tells is heeded. `in_base`: those of
    the keys that the base file may have, if that is known; then its footer is not asked.
    """
    is_present = np.zeros(len(keys), bool)
    base = read.slice.base
    if base is not None and in_base is None:
        is_present |= _find_in_base(read, base, keys, by_range=by_range)
    elif base is not None and in_base is not None and len(in_base):
        columns = pa.schema([(RECORD_KEY, pa.string())])
        stored_keys = _keys_of(read_base(read.env, base, columns))
        is_present |= is_member(keys, in_base.filter(pa.array(is_member(in_base, stored_keys))))
    if read.slice.logs:
        for present in _read_logged_keys(read):
            is_present |= is_member(keys, present)
    return keys.filter(pa.array(is_present))


def search_slice(
    read: SliceReadTask, keys: pa.Array, *, by_range: bool = True, in_base: pa.Array | None = None
) -> SliceKeys:
    """Which of the keys are in a slice, and which of those live; footers are asked first.

    `in_base` is as for `find_keys`.
    """
    present = find_keys(read, keys, by_range=by_range, in_base=in_base)
    if not read.slice.logs or not len(present):
        return SliceKeys(present)
    live = is_member(present, arrays.one_array(read_merged_rows(read).column(RECORD_KEY)))
    return SliceKeys(present, present.filter(pa.array(live)))


def read_keys(read: SliceReadTask) -> SliceKeys:
    """All keys in a slice's files, deleted ones too."""
    schema = pa.schema([read.rule.schema.field(RECORD_KEY)])
    parts = []
    if read.slice.base is not None:
        parts.append(read_base(read.env, read.slice.base, schema))
    if not read.slice.logs:
        return SliceKeys(arrays.one_array(parts[0].column(RECORD_KEY)))
    present = [arrays.one_array(part.column(RECORD_KEY)) for part in parts]
    present += _read_logged_keys(read)
    live = arrays.one_array(read_merged_rows(read).column(RECORD_KEY))
    return SliceKeys(pc.unique(pa.concat_arrays([pa.array([], pa.string()), *present])), live)


def key_range(read: SliceReadTask) -> KeyRange | None:
    """The range of a slice's keys; None if its base file does not tell, or if it has logs.

    Reads the footer of the base file.
    """
    base = read.slice.base
    if base is None or read.slice.logs:
        return None
    with add_error_source(base.path), read.env.storage.open_read(base.path) as source:
        return _parse_key_range(read_footer(open_parquet(source).metadata))


def _parse_key_range(footer: Footer) -> KeyRange | None:
    if footer.min_key is None or footer.max_key is None:
        return None
    return KeyRange(footer.min_key, footer.max_key)


def _find_in_base(read: SliceReadTask, base: BaseFile, keys: pa.Array, *, by_range: bool) -> Flags:
    """Which of the keys a base file has; its keys are read only if the footer does not deny all."""
    maybe = np.ones(len(keys), bool)
    with add_error_source(base.path), read.env.storage.open_read(base.path) as source:
        file = open_parquet(source)
        footer = read_footer(file.metadata)
        bounds = _parse_key_range(footer) if by_range else None
        if bounds is not None:
            maybe &= bounds.may_hold(keys)
        if footer.bloom is not None and maybe.any():
            maybe[maybe] = footer.bloom.might_contain(keys.filter(pa.array(maybe)))
        if not maybe.any():
            return maybe
        rows = read_rows(file, [RECORD_KEY])
    maybe[maybe] = is_member(keys.filter(pa.array(maybe)), _keys_of(rows))
    return maybe


def _read_logged_keys(read: SliceReadTask) -> Iterator[pa.Array]:
    for path, block in read_log_blocks(read):
        if block.type is not BlockType.DELETE:
            with add_error_source(path):
                yield _keys_of(decode_data(block, columns=[RECORD_KEY]))


def _keys_of(rows: pa.Table) -> pa.Array:
    return arrays.one_array(
        fit_to_schema(rows, pa.schema([(RECORD_KEY, pa.string())])).column(RECORD_KEY)
    )


def is_member(keys: pa.Array, present: pa.Array) -> Flags:
    """Which of the keys are present; of the two, `keys` are likely the fewer to put in a table."""
    hits = present.filter(pc.is_in(present, value_set=keys))
    return np.asarray(pc.is_in(keys, value_set=hits).to_numpy(zero_copy_only=False), bool)
