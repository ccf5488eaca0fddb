"""Whether a table has buckets, and whether the settings of a write say the same.

Rows that one writer puts into buckets and another one elsewhere are found by neither. What a table
has is told by `hoodie.properties`, where hoodoo made it, and by its file ids.
"""

from __future__ import annotations

from hoodoo.config.index import BUCKETS, HASH_FIELDS, INDEX_TYPE, IndexType, bucket_rule
from hoodoo.config.resolve import Config
from hoodoo.errors import ConfigError
from hoodoo.model.buckets import bucket_of, looks_like_bucket
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot


def has_buckets(ref: TableRef) -> bool:
    """Whether rows go to buckets, by the settings."""
    return ref.config.get(INDEX_TYPE) is IndexType.BUCKET


def check_buckets(snapshot: Snapshot) -> None:
    """Fail if rows that are written by these settings would not be found by those of the table."""
    ref = snapshot.ref
    _check_properties(ref)
    file_ids = [slice_.group.file_id for slice_ in snapshot.slices()]
    if not has_buckets(ref):
        if file_ids and all(map(looks_like_bucket, file_ids)):
            raise ConfigError(
                key=INDEX_TYPE.name,
                value=ref.config.get(INDEX_TYPE).value,
                reason=f"the table has a bucket index: set BUCKET, and {BUCKETS.name} as it was",
            )
        return
    count = bucket_rule(ref.config, ref.properties.keys.record_fields).count
    for file_id in file_ids:
        number = bucket_of(file_id)
        if number is None or number >= count:
            raise ConfigError(
                key=BUCKETS.name,
                value=count,
                reason=f"file group {file_id} is none of these buckets; the first write to a table "
                "decides whether it has buckets, and how many",
            )


def _check_properties(ref: TableRef) -> None:
    """What the table's own properties say of buckets cannot be set otherwise."""
    own = Config(ref.properties.raw)
    if own.values.get(INDEX_TYPE.name, "").upper() != IndexType.BUCKET.value:
        return
    if not has_buckets(ref):
        raise _differs(INDEX_TYPE.name, ref, IndexType.BUCKET.value)
    fields = ref.properties.keys.record_fields
    made, given = bucket_rule(own, fields), bucket_rule(ref.config, fields)
    if given.count != made.count:
        raise _differs(BUCKETS.name, ref, str(made.count))
    if given.fields != made.fields:
        raise _differs(HASH_FIELDS.name, ref, ",".join(made.fields))


def _differs(name: str, ref: TableRef, made: str) -> ConfigError:
    given = ref.config.values.get(name)
    return ConfigError(key=name, value=given, reason=f"the table was made with {made}")
