"""What the documents say is so: examples run, links lead somewhere, generated pages are current."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodoo
from hoodoo.cli.main import COMMANDS, GROUPS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HOODOO = "from hoodoo.cli.main import run; run()"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_readme_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = blocks(README, "python")
    assert len(examples) >= 2
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    commands = [
        line
        for block in blocks(README, "sh")
        for line in block.splitlines()
        if line.startswith("hoodoo ")
    ]
    assert len(commands) >= 5
    for command in commands:
        words = shlex.split(command)[1:]
        done = subprocess.run(
            [sys.executable, "-c", HOODOO, *words], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip(), command


def test_readme_tells_what_pyproject_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, text = project["optional-dependencies"], README.read_text()
    named = {name for group in re.findall(r"\.\[([\w,]+)\]", text) for name in group.split(",")}
    assert "spark" in named <= set(extras)
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in text
    (spark,) = (need for need in extras["spark"] if need.startswith("pyspark"))
    oldest, before = re.fullmatch(r"pyspark>=(4\.\d+),<4\.(\d+)", spark).groups()
    assert f"PySpark {oldest} to 4.{int(before) - 1}" in text
    assert f"version {project['version']}" in text


def test_readme_lists_the_commands() -> None:
    (listed,) = re.findall(r"All commands: (.*?)\.", README.read_text(), re.DOTALL)
    groups = (f"{name} {member}" for name, (_, members) in GROUPS.items() for member in members)
    commands = (command.__name__.replace("_", "-") for command in COMMANDS)
    assert set(re.findall(r"`(.*?)`", listed)) == {*commands, *groups}


def test_readme_names_what_the_interface_has() -> None:
    text = README.read_text()
    methods = set(re.findall(r"\btable\.(\w+)\(", text)) | set(
        re.findall(r"^\| `(\w+)` ", text, re.M)
    )
    assert {"upsert", "read", "changes", "delete_partitions"} <= methods
    assert not [name for name in methods if not hasattr(hoodoo.Table, name)]
    keys = set(re.findall(r"hoodie\.write\.[\w.]*\w", text))
    reference = (ROOT / "docs" / "reference" / "config.md").read_text()
    assert keys
    assert not [key for key in keys if f"`{key}`" not in reference]


def prose(page: Path) -> str:
    """A page without its fenced blocks and code spans."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        other = (page.parent / path).resolve() if path else page
        if not other.exists():
            yield f"{page.relative_to(ROOT)}: {target} is not there"
        elif anchor and anchor not in anchors(other):
            yield f"{page.relative_to(ROOT)}: {target} has no such heading"


def test_links_lead_somewhere() -> None:
    assert not [told for page in PAGES for told in broken_links(page)]


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# One heading\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#one-heading) [b](https://example.org/x) `[c](gone.md)`")
    assert not list(broken_links(page))
    page.write_text("[a](gone.md) [b](there.md#another) [c](#none)")
    assert len(list(broken_links(page))) == 3


def missing_modules(page: Path) -> Iterator[str]:
    """Names such as `write.retry` or `hoodoo.write.index.bloom` of modules that are not there."""
    source = ROOT / "src" / "hoodoo"
    for name in re.findall(r"`(?:hoodoo\.)?([a-z_]+(?:\.\w+)+)`", page.read_text()):
        place, parts = source, name.split(".")
        while parts and (place / parts[0]).is_dir():
            place /= parts.pop(0)
        if place != source and parts and not (place / f"{parts[0]}.py").exists():
            yield f"{page.name}: {name}"


def test_modules_are_where_the_pages_say() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/protocol/*.md")]
    pages += [ROOT / "docs" / name for name in ("architecture.md", "glossary.md", "simulator.md")]
    assert not [name for page in pages for name in missing_modules(page)]


def test_a_missing_module_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`write.retry`, `hoodoo.write.index.bloom`, `spark.write.tasks.write_bulk`, `Table.read`"
    )
    assert not list(missing_modules(page))
    page.write_text("`write.assign`, `hoodoo.table.instants`, `table.base.SliceRead`")
    assert len(list(missing_modules(page))) == 3


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    pages = {page for page in PAGES if index.parent in page.parents and page != index}
    missing = sorted(str(page.relative_to(index.parent)) for page in pages - listed)
    assert not missing, "add to docs/README.md: " + ", ".join(missing)


def test_the_reference_of_keys_is_current() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "config.md").read_text() == page, (
        "run `make generate-docs`"
    )


def test_the_readme_tells_which_indexes_the_model_test_runs() -> None:
    pytest.importorskip("pyspark")
    readme = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["readme"]()
    assert (ROOT / "README.md").read_text() == readme, "run `make generate-docs`"


def test_make_has_the_targets_that_are_told_of() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    told = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)make (?:PYTHON=\S+ )?([a-z-]+)", page.read_text(), re.M)
    }
    assert {"demo", "test", "check"} <= told <= targets


def test_ci_runs_the_readme_s_test_command() -> None:
    ci = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in ci
    assert "make test " in README.read_text()


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == hoodoo.__version__
    assert f"## {hoodoo.__version__}" in (ROOT / "CHANGELOG.md").read_text()
