"""Settings: absent, given, bad, unknown; and properties that make no sense."""

from __future__ import annotations

import logging

import pytest

from hoodoo.config import ALL_KEYS, table, write
from hoodoo.config.check import check_options
from hoodoo.config.key import Config, as_text, split_options
from hoodoo.errors import ConfigError, UnsupportedVersion
from hoodoo.model.dates import TimestampType
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.merge import MergeMode
from hoodoo.model.table import TableType, TableVersion

SOUND = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
}


def test_every_key_is_listed_once_and_documented() -> None:
    names = [name for key in ALL_KEYS for name in (key.name, *key.aliases)]
    assert len(names) == len(set(names))
    assert all(key.doc.endswith(".") for key in ALL_KEYS)
    assert all(key.name.startswith(("hoodie.", "hoodoo.")) for key in ALL_KEYS)


def test_defaults_values_and_aliases() -> None:
    config = Config({"hoodie.parquet.compression.codec": "SNAPPY"})
    assert config.get(write.CODEC) is write.ParquetCodec.SNAPPY
    assert config.get(write.MAX_FILE_SIZE) == 120 * 1024 * 1024
    old = Config({"hoodie.table.precombine.field": "ts"})
    assert old.get(table.ORDERING_FIELDS) == ("ts",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.max.file.size", "0"),
        ("hoodie.parquet.max.file.size", "1e6"),
        ("hoodie.index.bloom.fpp", "2"),
        ("hoodie.parquet.compression.codec", "zip"),
        ("hoodie.combine.before.insert", "yes"),
        ("hoodie.keygen.timebased.timestamp.scalar.time.unit", "FORTNIGHTS"),
        ("hoodie.table.type", "MERGE"),
    ],
)
def test_bad_values_name_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_options(Config({key: value}))
    assert (caught.value.key, caught.value.value) == (key, value)
    assert key in str(caught.value)


def test_unknown_keys_are_kept_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    config = Config({"hoodie.no.such.key": "1"})
    with caplog.at_level(logging.WARNING):
        check_options(config)
        check_options(config)
    assert [record.getMessage() for record in caplog.records].count(
        "unknown option 'hoodie.no.such.key'"
    ) == 1
    assert config.values["hoodie.no.such.key"] == "1"


def test_options_are_split_and_typed_values_become_text() -> None:
    given = {"hoodie.a": True, "hoodie.b": ["x", "y"], "hoodoo.strict": False, "aws_region": "r"}
    config, storage = split_options(given)
    assert config.values == {"hoodie.a": "true", "hoodie.b": "x,y", "hoodoo.strict": "false"}
    assert storage == {"aws_region": "r"}
    with pytest.raises(ConfigError):
        as_text("k", {})


def test_properties() -> None:
    found = table.table_properties(SOUND)
    assert found.type is TableType.MERGE_ON_READ
    assert found.version is TableVersion.NINE
    assert found.keys.generator is KeyGenerator.SIMPLE
    assert found.merge.mode is MergeMode.COMMIT_TIME_ORDERING
    assert found.raw == SOUND


@pytest.mark.parametrize(
    ("given", "generator"),
    [
        ({"hoodie.table.keygenerator.type": "COMPLEX_AVRO"}, KeyGenerator.COMPLEX),
        (
            {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"},
            KeyGenerator.COMPLEX,
        ),
        (
            {"hoodie.table.keygenerator.class": "a.b.NonpartitionedKeyGenerator"},
            KeyGenerator.NON_PARTITION,
        ),
        ({"hoodie.table.keygenerator.type": "SPARK_SQL_UUID"}, KeyGenerator.OTHER),
        ({"hoodie.table.recordkey.fields": "a,b"}, KeyGenerator.COMPLEX),
        ({"hoodie.table.partition.fields": ""}, KeyGenerator.NON_PARTITION),
    ],
)
def test_key_generators(given: dict[str, str], generator: KeyGenerator) -> None:
    assert table.table_properties({**SOUND, **given}).keys.generator is generator


def test_a_timestamp_key_generator() -> None:
    old = "hoodie.deltastreamer.keygen.timebased."
    found = table.table_properties(
        {
            **SOUND,
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            f"{old}timestamp.type": "DATE_STRING",
            f"{old}input.dateformat": "yyyy-MM-dd,dd/MM/yyyy",
            f"{old}output.dateformat": "yyyy/MM",
            f"{old}timezone": "Europe/Berlin",
        }
    ).keys.timestamp
    assert found is not None
    assert found.type is TimestampType.DATE_STRING
    assert found.input_formats == ("yyyy-MM-dd", "dd/MM/yyyy")
    assert found.path_of("05/03/2026") == "2026/03"


@pytest.mark.parametrize(
    ("version", "given", "mode"),
    [
        ("9", {"hoodie.record.merge.mode": "event_time_ordering"}, MergeMode.EVENT_TIME_ORDERING),
        ("9", {"hoodie.table.ordering.fields": "ts"}, MergeMode.EVENT_TIME_ORDERING),
        ("9", {}, MergeMode.COMMIT_TIME_ORDERING),
        ("8", {"hoodie.compaction.payload.class": "com.x.Mine"}, MergeMode.CUSTOM),
        (
            "6",
            {
                "hoodie.compaction.payload.class": "a.b.OverwriteWithLatestAvroPayload",
                "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
                "hoodie.table.precombine.field": "ts",
            },
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        (
            "8",
            {"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"},
            MergeMode.EVENT_TIME_ORDERING,
        ),
    ],
)
def test_merge_modes(version: str, given: dict[str, str], mode: MergeMode) -> None:
    layout = "1" if version == "6" else "2"
    raw = {**SOUND, "hoodie.table.version": version, "hoodie.timeline.layout.version": layout}
    assert table.table_properties({**raw, **given}).merge.mode is mode


@pytest.mark.parametrize("version", ["0", "5", "7", "10"])
def test_unknown_versions(version: str) -> None:
    with pytest.raises(UnsupportedVersion, match=version):
        table.table_properties({**SOUND, "hoodie.table.version": version})


@pytest.mark.parametrize(
    "changes",
    [
        {"hoodie.table.version": None},
        {"hoodie.table.version": "nine"},
        {"hoodie.timeline.layout.version": None},
        {"hoodie.timeline.layout.version": "1"},
        {"hoodie.table.name": None},
        {"hoodie.table.type": None},
        {"hoodie.timeline.path": "../elsewhere"},
        {"hoodie.timeline.path": "/etc"},
        {"hoodie.table.base.file.format": "CSV"},
        {"hoodie.populate.meta.fields": "perhaps"},
    ],
)
def test_absurd_properties(changes: dict[str, str | None]) -> None:
    raw = {k: v for k, v in {**SOUND, **changes}.items() if v is not None}
    with pytest.raises(ConfigError):
        table.table_properties(raw)
