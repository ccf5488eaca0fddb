"""The bucket numbers of record keys as a column: `hoodoo.write.index.bucket_hash` for DataFrames.

Keys of one field are hashed in the JVM, where Java's hash of a text is at hand: to send them to
Python and back would cost more than to read the rows. Keys of several fields have to be taken
apart, which Python does faster, on whole columns, than Spark's functions on texts and lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, BucketRule
from hoodoo.write.index.bucket_hash import bucket_numbers

_UINT_MASK, _INT_MASK = 2**32 - 1, 2**31 - 1

# A part of a key, `name:value`. Its value ends at the last comma before the next colon that has a
# comma before it, or with the key. The first name begins with the key, and may have commas.
_PART = r"(^[^:]*|[^,:]*):([^,]*(?:,[^:]*)?(?=,[^,:]*:)|[\s\S]*)(?:,|\z)"
_NAME, _VALUE = 1, 2


def number_buckets(keys: Column, rule: BucketRule, record_fields: Sequence[str]) -> Column:
    """The bucket of each record key, as an int; the keys are made of these fields."""
    if len(record_fields) > 1:
        return _number_in_python(keys, rule)
    has_names = reduce(or_, (keys.contains(f"{field}:") for field in rule.fields))
    is_in_parts = keys.contains(",") & has_names
    hashes = sf.when(is_in_parts, _hash_parts(keys, rule.fields)).otherwise(hash_text(keys) + 31)
    return (hashes.bitwiseAND(sf.lit(_INT_MASK)) % rule.count).cast("int")


def hash_text(texts: Column) -> Column:
    """Java's hash of a text, from 0 to 2 ** 32: what its `hashCode` is to Scala."""
    name, method = sf.lit("scala.collection.StringOps"), sf.lit("hashCode$extension")
    return sf.java_method(name, method, texts).cast("long").bitwiseAND(sf.lit(_UINT_MASK))


def _hash_parts(keys: Column, fields: Sequence[str]) -> Column:
    """The hash of the list of those parts that have these names; of the key, if none has."""
    names, values = (sf.regexp_extract_all(keys, sf.lit(_PART), sf.lit(n)) for n in (_NAME, _VALUE))
    parts = sf.zip_with(names, values, lambda name, value: sf.when(name.isin(*fields), value))
    field_values = sf.filter(parts, lambda part: part.isNotNull())

    def add(hashes: Column, value: Column) -> Column:
        own = sf.when(value.isin(NULL_KEY, EMPTY_KEY), 0).otherwise(hash_text(value))
        return (hashes * 31 + own).bitwiseAND(sf.lit(_UINT_MASK))

    hash_ = sf.aggregate(field_values, sf.lit(1).cast("long"), add)
    return sf.when(sf.size(field_values) > 0, hash_).otherwise(hash_text(keys) + 31)


def _number_in_python(keys: Column, rule: BucketRule) -> Column:
    def by_arrow(keys: pa.Array) -> pa.Array:
        return pa.array(bucket_numbers(keys, rule), pa.int32())

    def by_pandas(keys: Any) -> Any:
        return by_arrow(pa.array(keys, pa.string())).to_pandas()

    if hasattr(sf, "arrow_udf"):  # from Spark 4.1 on
        return cast(Column, sf.arrow_udf(by_arrow, "int")(keys))
    return pandas_udf(by_pandas, "int", PandasUDFType.SCALAR)(keys)
