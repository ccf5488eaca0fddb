"""Bloom filters of the file groups that a write touches: a quick no for those who look.

One object per write, made before its first file and never changed. It has an entry for each file
group, for its bucket, and for its partition, so that writes with a bucket index and overwrites find
what they look for. A filter that is absent or unreadable says nothing, and then markers are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pyarrow as pa

from hoodoo.concurrency.peer_markers import Wanted
from hoodoo.env import Env
from hoodoo.errors import FormatError, NotFound, StorageError
from hoodoo.format.bloom import BloomFilter, FilterType
from hoodoo.model import paths
from hoodoo.model.buckets import DIGITS
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime

log = logging.getLogger("hoodoo.concurrency")

_FALSE_POSITIVE_RATE = 1e-6


def write_group_bloom(env: Env, instant: InstantTime, groups: Iterable[FileGroupId]) -> None:
    """Tell which file groups a write touches, all of them.

    Needs: the write makes no file yet. Failing here changes nothing: markers tell the same.
    """
    names = set()
    for group in groups:
        partition = f"{group.partition}/"
        names |= {partition, f"{partition}{group.file_id}", f"{partition}{group.file_id[:DIGITS]}"}
    if not names:
        return
    entries = pa.array(sorted(names), pa.string())
    bloom = BloomFilter.build(
        entries,
        type=FilterType.SIMPLE,
        entries=len(names),
        false_positive_rate=_FALSE_POSITIVE_RATE,
    )
    try:
        env.storage.put(paths.group_bloom(instant), bloom.encode().encode())
    except StorageError as error:
        log.warning("bloom_not_written time=%s error=%s", instant, error)


class GroupBlooms:
    """The filters of other writes, each read once."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._blooms: dict[InstantTime, BloomFilter | None] = {}

    def may_touch(self, instant: InstantTime, wanted: Wanted) -> bool:
        """Whether a write may touch what is wanted; only a filter that was read says no."""
        if instant not in self._blooms:
            self._blooms[instant] = self._read(instant)
        bloom = self._blooms[instant]
        if bloom is None or wanted.partitions is None:
            return True
        names = [partition + b"/" + file_id for partition, file_id in wanted.groups]
        names += [partition + b"/" for partition in wanted.partitions]
        entries = pa.array([name.decode() for name in names], pa.string())
        return bool(bloom.might_contain(entries).any())

    def _read(self, instant: InstantTime) -> BloomFilter | None:
        try:
            data = self._env.storage.read(paths.group_bloom(instant))
            return BloomFilter.decode(data, FilterType.SIMPLE.value)
        except NotFound:
            return None
        except (StorageError, FormatError) as error:
            log.warning("bloom_not_read time=%s error=%s", instant, error)
            return None
