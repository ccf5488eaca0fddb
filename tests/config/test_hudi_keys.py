"""Options of Apache Hudi that hoodoo does not honour, and options that nobody knows."""

from __future__ import annotations

import logging

import pytest

from hoodoo.config import check
from hoodoo.config.check import KEY_NAMES, check_options, refuse_unsupported
from hoodoo.config.hudi_keys import GROUPS, RULES, OptionRuleKind
from hoodoo.config.key import Config
from hoodoo.errors import ConfigError

SWITCHES = [name for name, rule in RULES.items() if rule.kind is OptionRuleKind.NOT_BUILT]


@pytest.fixture
def warnings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """What is warned of by a process that has warned of nothing yet."""
    monkeypatch.setattr(check, "_warned_names", set())
    caplog.set_level(logging.WARNING, "hoodoo.config")
    return caplog


def refused(key: str, value: str) -> str:
    with pytest.raises(ConfigError) as caught:
        refuse_unsupported(Config({key: value}))
    assert (caught.value.key, caught.value.value) == (key, value)
    return caught.value.reason


def test_every_key_has_one_rule() -> None:
    assert not KEY_NAMES & RULES.keys()
    assert sum(map(len, GROUPS)) == len(RULES)
    assert all(rule.reason for rule in RULES.values() if rule.kind is not OptionRuleKind.TUNING)
    assert all((rule.key is None) or rule.kind is OptionRuleKind.TABLE for rule in RULES.values())


@pytest.mark.parametrize("name", SWITCHES)
def test_switch_of_missing_feature_accepts_only_off(name: str) -> None:
    (off,) = RULES[name].accepts
    refuse_unsupported(Config({name: f" {off.upper()} "}))
    assert "hoodoo has no" in refused(name, "x" if off == "" else "true")
    check_options(Config({name: "true"}))  # a read does not mind


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("hoodie.clean.async.enabled", "TRUE", "no cleaning beside writes yet; set it to 'false'"),
        ("hoodie.prewrite.cleaner.policy", "CLEAN", "hoodoo has no cleaning before writes yet"),
        ("hoodie.archive.async", "true", "hoodoo has no archival beside writes yet"),
        ("hoodie.datasource.hive_sync.enable", "true", "hoodoo has no catalog sync yet"),
        ("hoodie.datasource.write.insert.drop.duplicates", "true", "call upsert"),
        ("hoodie.datasource.write.partitions.to.delete", "p=1", "call delete_partitions"),
        ("hoodie.datasource.overwrite.mode", "STATIC", "insert_overwrite_table"),
        ("hoodie.write.set.null.for.missing.columns", "false", "are null in them"),
        ("hoodie.schema.on.read.enable", "true", "matched by name"),
        ("hoodie.precommit.validators", "a.b.Mine", "no Java classes; leave it out"),
        ("hoodie.write.merge.handle.class", "a.b.MyMergeHandle", "no Java classes"),
        (
            "hoodie.datasource.write.record.merger.impls",
            "org.apache.hudi.DefaultSparkRecordMerger,a.b.Mine",
            "no Java classes",
        ),
        ("hoodie.index.type", "RECORD_LEVEL_INDEX", "no record index by partition"),
        ("hoodie.write.lock.provider", "a.HiveMetastoreBasedLockProvider", "expected one of"),
    ],
)
def test_options_that_a_write_refuses_and_a_read_does_not(
    key: str, value: str, reason: str
) -> None:
    assert reason in refused(key, value)
    check_options(Config({key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.upsert.shuffle.parallelism", "200"),
        ("hoodie.metrics.on", "true"),
        ("hoodie.metrics.datadog.api.key", "secret"),
        ("hoodie.metrics.cloudwatch.maxdatumsperrequest", "5"),
        ("hoodie.datasource.hive_sync.jdbcurl", "jdbc:hive2://there"),
        ("hoodie.compact.inline.max.delta.commits", "3"),
        ("hoodie.datasource.write.insert.drop.duplicates", "False"),
        ("hoodie.write.merge.handle.class", "org.apache.hudi.io.FileGroupReaderBasedMergeHandle"),
        ("hoodie.datasource.write.partitions.to.delete", ""),
        (
            "hoodie.datasource.write.record.merger.impls",
            "org.apache.hudi.DefaultSparkRecordMerger, a.b.HoodieAvroRecordMerger",
        ),
        ("hoodie.datasource.query.type", "snapshot"),
        # As Spark hands them over: in lower case.
        ("hoodie.metadata.index.column.stats.inmemory.projection.threshold", "5"),
    ],
)
def test_options_that_change_nothing_pass_in_silence(
    key: str, value: str, warnings: pytest.LogCaptureFixture
) -> None:
    for strict in ("true", "false"):
        config = Config({key: value, "hoodoo.strict": strict})
        check_options(config)
        refuse_unsupported(config)
    assert not warnings.messages


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hoodie.datasource.query.type", "incremental", "changes(since, until)"),
    ],
)
def test_options_without_effect_are_told_once_and_no_error(
    key: str, value: str, told: str, warnings: pytest.LogCaptureFixture
) -> None:
    config = Config({key: value, "hoodoo.strict": "true"})
    check_options(config)
    check_options(config)
    refuse_unsupported(config)
    (message,) = warnings.messages
    assert message.startswith(f"option {key!r} has no effect: ")
    assert told in message


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("hoodie.upsert.shufle.parallelism", "hoodie.upsert.shuffle.parallelism"),
        ("hoodie.parquet.max.filesize", "hoodie.parquet.max.file.size"),
        ("hoodie.metadata.enabled", "hoodie.metadata.enable"),
        ("hoodie.datasource.hive_sync.enabled", "hoodie.datasource.hive_sync.enable"),
        ("hoodie.cleaner.commit.retained", "hoodie.cleaner.commits.retained"),
        ("hoodie.Index.Type", "hoodie.index.type"),
        ("hoodoo.strickt", "hoodoo.strict"),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest_one_that_is_known(
    wrong: str, near: str, warnings: pytest.LogCaptureFixture
) -> None:
    check_options(Config({wrong: "1"}))
    assert warnings.messages == [f"unknown option {wrong!r}: did you mean {near!r}?"]
    with pytest.raises(ConfigError, match="did you mean") as caught:
        check_options(Config({wrong: "1", "hoodoo.strict": "true"}))
    assert (caught.value.key, caught.value.value) == (wrong, "1")
    assert caught.value.reason == f"unknown option: did you mean {near!r}?"


def test_unknown_option_without_near_match_gets_no_suggestion(
    warnings: pytest.LogCaptureFixture,
) -> None:
    check_options(Config({"hoodie.entirely.of.my.own": "1", "hoodoo.strict": "false"}))
    assert warnings.messages == ["unknown option 'hoodie.entirely.of.my.own'"]
