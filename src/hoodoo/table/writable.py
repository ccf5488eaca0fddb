"""Which tables may be written: a commit that we cannot make whole must not begin."""

from __future__ import annotations

from hoodoo.config.concurrency import CONCURRENCY_MODE, ConcurrencyMode
from hoodoo.config.table import (
    CDC_ENABLED,
    DATE_PARSER,
    FORMAT_DELIMITER,
    MERGE_MODE,
    PARTIAL_UPDATE_MODE,
    SLASH_DATES,
    TIMESTAMP_TYPE,
)
from hoodoo.errors import ObjectNotFound, UnsupportedFeature, add_error_source
from hoodoo.format.json_files import is_by_partition
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.metadata_table import (
    DEFINITIONS_PATH_KEY,
    INDEX_DEFINITIONS,
    RECORD_INDEX,
    WRITABLE_PARTITIONS,
)
from hoodoo.model.metadata_table import PROPERTIES as METADATA_PROPERTIES
from hoodoo.storage import probe_conditions
from hoodoo.table.ref import TableRef


def reopen_for_writing(ref: TableRef) -> TableRef:
    """The table as it is now, if we can write it.

    A handle may be old: since it was opened the table may have been dropped, created anew, or got
    a metadata table. Raises `NoSuchTable`, `TableChanged`, `UnsupportedFeature`.
    """
    present = ref.reopen()
    refuse_unwritable(present)
    return present


def refuse_unwritable(ref: TableRef) -> None:
    """Fail, before anything is written, on tables whose commits we could not make whole."""
    probe_conditions(ref.env.storage)
    properties, config = ref.properties, ref.config
    if not properties.version.is_writable:
        raise UnsupportedFeature(
            f"table version {properties.version.value} can be read, not written; "
            "upgrade the table to version 9 first"
        )
    metadata = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
    unknown = [partition for partition in metadata if partition not in WRITABLE_PARTITIONS]
    if unknown:
        raise UnsupportedFeature(
            f"the table has indexes that hoodoo does not write yet ({', '.join(unknown)}), and a "
            "commit that skips them would make them wrong; drop them with `hoodoo index drop`, or "
            "with Apache Hudi (DROP INDEX)"
        )
    if metadata and not ref.env.storage.exists(METADATA_PROPERTIES):
        raise UnsupportedFeature(
            "the metadata table that hoodie.table.metadata.partitions names is not there; readers "
            "that trust the property see no rows: take it out, or restore the metadata table"
        )
    if RECORD_INDEX in metadata and _is_by_partition(ref):
        raise UnsupportedFeature(
            "the table has a record index for each partition (RECORD_LEVEL_INDEX), which hoodoo "
            "does not write; drop it with Apache Hudi (DROP INDEX)"
        )
    if not properties.merge.is_ours:
        raise UnsupportedFeature(
            "the table merges records in a way that hoodoo does not write: by a Java class of its "
            f"own ({MERGE_MODE.name}=CUSTOM), or partially ({PARTIAL_UPDATE_MODE.name})"
        )
    if not properties.populates_meta_fields:
        raise UnsupportedFeature(
            "tables without meta fields (hoodie.populate.meta.fields=false) are not written"
        )
    if config.get(CDC_ENABLED):
        raise UnsupportedFeature(
            "change data capture (hoodie.table.cdc.enabled) is not written yet"
        )
    keys = properties.keys
    if keys.generator in (KeyGenerator.CUSTOM, KeyGenerator.OTHER):
        raise UnsupportedFeature("the table's key generator is not supported for writing")
    if keys.generator is KeyGenerator.TIMESTAMP and not config.sets(TIMESTAMP_TYPE):
        raise UnsupportedFeature(f"a timestamp-based table needs {TIMESTAMP_TYPE.name} for writing")
    for key in (FORMAT_DELIMITER, DATE_PARSER):
        if keys.generator is KeyGenerator.TIMESTAMP and config.get(key) != key.default:
            raise UnsupportedFeature(f"{key.name}={config.get(key)}: such dates are not written")
    if config.get(SLASH_DATES):
        raise UnsupportedFeature(
            f"tables whose dates become directories yyyy/MM/dd ({SLASH_DATES.name}) are not written"
        )
    if not keys.record_fields:
        raise UnsupportedFeature("a table without record key fields is not written")
    if config.get(CONCURRENCY_MODE) is ConcurrencyMode.NON_BLOCKING:
        raise UnsupportedFeature(
            "non-blocking concurrency control is not there: two writers of one file group meet in "
            f"a conflict; set {CONCURRENCY_MODE.name}={ConcurrencyMode.OPTIMISTIC.value}"
        )


def _is_by_partition(ref: TableRef) -> bool:
    path = ref.properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    try:
        data = ref.env.storage.read(path)
    except ObjectNotFound:
        return False
    with add_error_source(path):
        return is_by_partition(data, RECORD_INDEX)
