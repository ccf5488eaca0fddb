"""What a soak tells at its end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from soak.verdict import KINDS
from soak.writes import Outcome

if TYPE_CHECKING:
    from soak.soak_run import Result, Setting

_NAMED = 8
_LETTERS = 900


def print_report(setting: Setting, result: Result) -> None:
    """Details of what is wrong, then one line that sums it all up."""
    for kind, found in result.findings.by_kind.items():
        if found:
            print(f"\n{kind}: {len(found)} ({KINDS[kind]})")
        for what, detail in list(found.items())[:_NAMED]:
            short = detail if kind == "other" else detail[:_LETTERS]
            print(f"  {what}: {short}")
    print(f"\n{summary(setting, result)}", flush=True)


def summary(setting: Setting, result: Result) -> str:
    """One line with all figures."""
    outcomes = Counter(write.outcome for write in result.writes)
    refused = Counter(w.error for w in result.writes if w.outcome is Outcome.REFUSED)
    by_error = ", ".join(f"{error} {count}" for error, count in refused.most_common())
    swept = "never" if result.swept_s is None else f"after {result.swept_s:.1f} s"
    found = ", ".join(f"{kind} {result.findings.count(kind)}" for kind in KINDS)
    parts = [
        f"{setting.minutes:g} min {setting.kind} on {setting.store}, {setting.lock} lock, "
        f"seed {setting.seed}",
        f"acknowledged {outcomes[Outcome.ACKNOWLEDGED]}",
        f"refused {outcomes[Outcome.REFUSED]} ({by_error or 'none'})",
        f"unknown {outcomes[Outcome.UNKNOWN]}",
        f"kills {result.kills}, stops {result.stops}",
        f"keys {result.keys}, rows {result.rows}",
        f"reads meanwhile {result.checks}, incremental windows {result.windows}",
        f"swept {swept}",
        found,
    ]
    if setting.indexes:
        parts.append(f"changes of indexes {result.builds}")
    if setting.beside_hudi:
        theirs = Counter(write.outcome.value for write in result.writes if write.is_by_hudi)
        parts.append(f"Apache Hudi {dict(theirs)}, excused {result.excused}")
    verdict = "VIOLATED" if result.findings else "held"
    return f"soak {verdict}: " + "; ".join(parts)
