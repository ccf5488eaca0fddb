"""Options that hoodoo does not honour: what is said of them, and which a write refuses."""

from __future__ import annotations

import logging
from contextlib import suppress
from difflib import get_close_matches

from hoodoo.config import KEY_BY_NAME
from hoodoo.config.hudi_keys import FAMILIES, RULES, OptionRule, OptionRuleKind
from hoodoo.config.key import STRICT, Config
from hoodoo.errors import ConfigError, UnsupportedValue

log = logging.getLogger("hoodoo.config")

KEY_NAMES = KEY_BY_NAME.keys()
# Spark makes the names of options lower case.
_RULES = {name.lower(): rule for name, rule in RULES.items()}
_ALIKE = 0.8

_warned_names: set[str] = set()


def rule_of(name: str) -> OptionRule | None:
    """What becomes of an option of Apache Hudi's; None: it is honoured, or nobody knows it."""
    if name in KEY_NAMES:
        return None
    if name in RULES or name in _RULES:
        return RULES.get(name) or _RULES[name]
    return next((rule for prefix, rule in FAMILIES.items() if name.startswith(prefix)), None)


def check_options(config: Config) -> None:
    """Fail on bad values of honoured keys; warn once of keys that are unknown or have no effect.

    That is for reads as well as writes, so what only Apache Hudi can do is no error here.
    """
    for name, value in config.values.items():
        if name in KEY_NAMES:
            with suppress(UnsupportedValue):
                config.get(KEY_BY_NAME[name])
            continue
        rule = rule_of(name)
        if rule is None:
            advice = _advice(name)
            if config.get(STRICT):
                raise ConfigError(key=name, value=value, reason=f"unknown option{advice}")
            _warn_once(name, f"unknown option {name!r}{advice}")
        elif rule.kind is OptionRuleKind.NOTED and not rule.allows(value):
            _warn_once(name, f"option {name!r} has no effect: {rule.reason}")


def refuse_unsupported(config: Config) -> None:
    """Fail if options ask for a write that hoodoo cannot do. Raises `ConfigError`."""
    for name, value in config.values.items():
        if name in KEY_NAMES:
            config.get(KEY_BY_NAME[name])
        rule = rule_of(name)
        if (
            rule is None
            or rule.kind not in (OptionRuleKind.ONLY, OptionRuleKind.NOT_BUILT)
            or rule.allows(value)
        ):
            continue
        fine = " or ".join(repr(each) for each in rule.accepts if each)
        advice = f"; set it to {fine}, or leave it out" if fine else "; leave it out"
        raise ConfigError(key=name, value=value, reason=rule.reason + advice)


def _advice(name: str) -> str:
    near = get_close_matches(name, [*KEY_NAMES, *RULES], n=1, cutoff=_ALIKE)
    return f": did you mean {near[0]!r}?" if near else ""


def _warn_once(name: str, message: str) -> None:
    if name not in _warned_names:
        _warned_names.add(name)
        log.warning("%s", message)
