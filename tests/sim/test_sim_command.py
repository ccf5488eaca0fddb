"""The command `python -m hoodoo_testing.simulator`, and what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from inline_scenarios import play, puts

from hoodoo.errors import HoodooError
from hoodoo_testing.simulator.__main__ import main
from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.scenarios import scenarios
from hoodoo_testing.simulator.scenarios.toys import CreatedLock, NaiveLock
from hoodoo_testing.simulator.search.explore import by_preemptions, by_seed, search
from hoodoo_testing.simulator.world.faults import FaultKind, ProcessCrash
from hoodoo_testing.simulator.world.schedule import SeededSchedule
from hoodoo_testing.simulator.world.stage import Violation

pytestmark = pytest.mark.slow


def test_scenarios_are_found_by_name() -> None:
    assert scenarios()["toy-lock"] is CreatedLock
    assert {"toy-naive-lock", "toy-leased-lock"} <= set(scenarios())


def test_the_command_tells_of_success(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--seed", "5", "--count", "20"], ["--preemptions", "1"], ["--faults", "a"]):
        assert main(["--scenario", "toy-lock", *words]) == 0
        told = capsys.readouterr().out
        assert told.startswith("toy-lock: ")
        assert told.endswith(": no violation\n")


def test_the_command_repeats_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-naive-lock", "--preemptions", "2", "--shrink"]) == 1
    told = capsys.readouterr().out
    (failure,) = search(by_preemptions(NaiveLock, 2)).failures
    assert failure.report() in told
    script = ["--script", str(failure.script), "--seed", "0"]
    assert main(["--scenario", "toy-naive-lock", *script]) == 1
    assert failure.report() in capsys.readouterr().out


def test_the_command_prints_traces(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-lock", "--seed", "2", "--trace"]) == 0
    assert run(CreatedLock, SeededSchedule(2, CreatedLock.chances)).trace in capsys.readouterr().out


def test_the_command_runs_seeds_in_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-lock", "--jobs", "2", "--count", "600"]) == 0
    steps = search(by_seed(CreatedLock, range(600))).steps
    assert f"toy-lock: 600 runs, {steps} steps, " in capsys.readouterr().out


def test_a_failure_in_another_process_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-naive-lock", "--jobs", "2", "--count", "600"]) == 1
    told = capsys.readouterr().out
    (failure,) = search(by_seed(NaiveLock, range(600))).failures
    assert failure.report() in told
    assert told.count("of 600 runs, ") == 1


def test_a_trace_names_time_actor_operation_and_outcome() -> None:
    outcome, _ = play({"writer": puts("dir/x")}, "writer#1=crash_after")
    assert outcome.trace == (
        "    1      0.000  writer         begins\n"
        "    2      0.010  writer#1       put       dir/x"
        "                                    ok, crash after it\n"
        "           0.010  writer         ends      with ProcessCrash\n"
    )


def test_the_example_of_the_documentation_finds_a_lost_update(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "simulator.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "simulator.md", "exec"), {"__name__": "example"})
    assert "an update is lost" in capsys.readouterr().out
    told = set(re.findall(r"^\| `(\w+)(?::MS)?` \|", page, re.MULTILINE))
    assert told == set(FaultKind)


def test_code_that_catches_errors_of_hoodoo_does_not_catch_a_crash() -> None:
    assert not issubclass(ProcessCrash, Exception)
    assert not issubclass(Violation, HoodooError)
