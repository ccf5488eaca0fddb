"""The table of Apache Hudi's keys, held against the classes that declare them."""

from __future__ import annotations

import pytest
from support.hudi_classes import HudiClasses

from hoodoo.config import ALL_KEYS
from hoodoo.config.check import KEY_NAMES, rule_of
from hoodoo.config.hudi_keys import RULES, OptionRuleKind

# Gone before 1.2, and still in what people copy.
OLDER = {
    "hoodie.assume.date.partitioning",
    "hoodie.auto.commit",
    "hoodie.metadata.index.partition.stats.enable",
}
NO_PREFIX = {"as.of.instant"}
# Where hoodoo does not do what Apache Hudi does unless told.
OTHER_WAY = {"hoodie.write.set.null.for.missing.columns"}


@pytest.fixture(scope="module")
def declared(classes: HudiClasses) -> dict[str, str | None]:
    keys = classes.config_keys()
    assert len(keys) > 650
    return keys


def test_no_key_of_apache_hudi_is_unknown(declared: dict[str, str | None]) -> None:
    known = KEY_NAMES | {name for name in declared if rule_of(name) is not None}
    assert declared.keys() - known == NO_PREFIX


def test_no_key_is_made_up(declared: dict[str, str | None]) -> None:
    assert RULES.keys() - declared.keys() == OLDER


def test_what_apache_hudi_does_by_default_is_what_hoodoo_does(
    declared: dict[str, str | None],
) -> None:
    refused = {
        name
        for name, default in declared.items()
        if default is not None
        and (rule := RULES.get(name)) is not None
        and rule.kind is OptionRuleKind.ONLY
        and not rule.allows(default)
    }
    assert refused == OTHER_WAY


def test_defaults_of_honoured_keys_can_be_set(declared: dict[str, str | None]) -> None:
    for key in ALL_KEYS:
        default = declared.get(key.name)
        if default and default != "NINE":  # the name of a version's number
            key.read(default)
