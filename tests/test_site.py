"""The docs site: what the build of `make site` relies on. The build itself is a step of CI."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hoodoo
from hoodoo import errors
from hoodoo.api import results

ROOT = Path(__file__).resolve().parents[1]
CONFIG = (ROOT / "mkdocs.yml").read_text()
GENERATED = {"contributing.md", "changelog.md"}

pytest.importorskip("mkdocs", reason="the site needs the packages of the extra `docs`")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hooks of the site, with the modules beside them."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "site"))
    import hooks

    return hooks


def test_the_navigation_has_every_page_once(site: ModuleType) -> None:
    listed = re.findall(r"([\w/.-]+\.md)$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert set(listed) == pages | GENERATED | set(site.api_pages.pages())
    assert len(listed) == len(set(listed))


def build(folder: Path, page: str, *, nav: str = "[index.md, there.md]") -> str:
    """Build a small site as `make site` does, with the rules of mkdocs.yml; what it said."""
    (make_line,) = re.findall(r"mkdocs (build .*)", (ROOT / "Makefile").read_text())
    (rules,) = re.findall(r"^validation:\n(?:  .*\n)+", CONFIG, re.MULTILINE)
    docs = folder / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "index.md").write_text(page)
    (docs / "there.md").write_text("# There\n\n## Some heading\n")
    (folder / "mkdocs.yml").write_text(f"site_name: x\nnav: {nav}\n{rules}")
    command = [sys.executable, "-m", "mkdocs", *make_line.split()]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else ran.stderr


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    assert not build(tmp_path, "[a](there.md#some-heading)")
    told = build(tmp_path, "[a](gone.md) [b](there.md#none)", nav="[index.md]")
    assert "'gone.md'" in told
    assert "'#none'" in told
    assert 'not included in the "nav"' in told


def bases(kind: object) -> tuple[type, ...]:
    return kind.__bases__ if isinstance(kind, type) else ()


def test_the_reference_has_every_name_of_the_interface(site: ModuleType) -> None:
    api = site.api_pages
    grouped = [name for names in api.GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(api.methods())
    kinds = {name for name in hoodoo.__all__ if isinstance(getattr(hoodoo, name), type)}
    assert set(hoodoo.__all__) - kinds == set(api.PLAIN)
    families = {kind for kind in vars(errors).values() if errors.HoodooError in bases(kind)}
    assert families == set(api.FAMILIES)
    assert "\n## Progress\n" in api.pages()[api.RESULTS]
    for name in kinds - {"Table", "HoodooError", "Progress"}:
        if issubclass(getattr(hoodoo, name), errors.HoodooError):
            assert f"`{name}`" in api.pages()[api.ERRORS], name
        else:
            assert name in results.__all__


def test_the_reference_shows_signatures_results_and_texts_of_fields(site: ModuleType) -> None:
    pages = site.api_pages.pages()
    table, results = pages[site.api_pages.TABLE], pages[site.api_pages.RESULTS]
    upsert = table.partition("### upsert\n")[2].partition("\n### ")[0]
    assert "transaction: tuple[str, int] | None" in upsert
    assert "[`CommitResult`](results.md#commitresult)" in upsert
    assert ">>> stats.updated, stats.inserted" in upsert
    assert "doctest" not in table
    assert "Crash:" not in pages[site.api_pages.FUNCTIONS]
    commit = results.partition("## CommitResult\n")[2].partition("\n## ")[0]
    assert "| `is_skipped` | `bool` | Whether nothing was written" in commit
    assert "(#writetotals)" in commit  # and what a field holds has its place, too
    assert "\n## WriteTotals\n" in results


def test_names_of_the_interface_become_links(site: ModuleType) -> None:
    def link(html: str) -> str:
        return site.api_pages.link_names(html, "x.md", lambda uri: uri)

    shown = "<code>table.upsert(df)</code>"
    assert link(shown) == f'<a class="api" href="reference/api/table.md#upsert">{shown}</a>'
    for other in ("<code>upsert</code>", f'<a href="x">{shown}</a>', "<code>table.none</code>"):
        assert link(other) == other


def test_commands_get_their_options(site: ModuleType) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    compact = site.cli_options.add_options(page).partition("## compact, ")[2].partition("\n## ")[0]
    for command in ("compact", "log-compact", "cluster"):
        assert f'"`hoodoo {command}`: all options"' in compact
    assert "`--cancel-after-hours" in compact
    with pytest.raises(ValueError, match=r"no section for.*doctor"):
        site.cli_options.add_options(page.replace("## doctor", "## nurse"))


def test_links_out_of_docs_lead_to_pages_of_the_site_or_become_text(site: ModuleType) -> None:
    rewrite = site.outside_links.rewrite
    assert rewrite("[a](../CONTRIBUTING.md#map)", "testing.md") == "[a](contributing.md#map)"
    assert rewrite("[a](../../README.md)", "guides/x.md") == "[a](../README.md)"
    assert rewrite("[a test](../tests/x.py)", "y.md") == "a test (`tests/x.py`)"
    assert rewrite("[`x.py`](../../src/x.py)", "a/y.md") == "`src/x.py`"
    for stays in ("[a](../locks.md)", "[a](#b)", "[a](https://x.org)", "`[a](../../x.py)`"):
        assert rewrite(stays, "guides/x.md") == stays
    pages = site.outside_links.pages(ROOT)
    assert "](testing.md" in pages["contributing.md"]
    assert not re.search(r"\]\(docs/", "".join(pages.values()))


def test_what_comes_from_another_host_is_found(site: ModuleType) -> None:
    for text in ('<script src="https://x.org/y.js">', '<link rel=x href="//x.org/y.css">'):
        assert site.OUTSIDE.search(text)
    named = '<link rel="canonical" href="https://x.org/">'
    for text in (named, '<a href="https://x.org">', '<img src="../life.svg">'):
        assert not site.OUTSIDE.search(text)


def test_diagrams_are_text_without_npm(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert site.diagrams.fetch_mermaid(tmp_path) is None


def test_no_diagram_has_a_semicolon_in_a_message() -> None:
    """Mermaid ends a line there, and shows an error instead of the picture."""
    for page in sorted(ROOT.glob("docs/**/*.md")):
        for diagram in re.findall(r"^```mermaid\n(.*?)^```", page.read_text(), re.M | re.S):
            assert not diagram.startswith("sequenceDiagram") or ";" not in diagram, page


def test_keys_become_links_to_their_line_of_the_reference(site: ModuleType) -> None:
    def link(html: str, uri: str = "x.md") -> str:
        return site.key_links.link_keys(html, uri, lambda uri: uri)

    shown = "<code>hoodie.clean.policy=KEEP_LATEST_COMMITS</code>"
    there = "reference/config.md#hoodie.clean.policy"
    assert link(shown) == f'<a class="api" href="{there}">{shown}</a>'
    assert link("<code>hoodie.not.there</code>") == "<code>hoodie.not.there</code>"
    line = "<td><code>hoodie.clean.policy</code></td>"
    assert 'id="hoodie.clean.policy"' in link(line, "reference/config.md")


def test_a_bar_in_a_cell_has_no_backslash(site: ModuleType) -> None:
    class Page:
        class file:  # noqa: N801 - the name of mkdocs
            src_uri = "x.md"

    html = "<td><code>str \\| None</code></td><p>a \\| b</p>"
    assert site.on_page_content(html, Page, {}, None) == html.replace("\\|", "|", 1)
