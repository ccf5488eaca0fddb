"""The guides and the pages about concepts show what works: their examples run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import DOCS, blocks, needs_spark, run_page

GUIDES = [DOCS / "quick-start.md", *sorted(DOCS.glob("guides/*.md"))]
CONCEPTS = sorted(DOCS.glob("concepts/*.md"))
HERE = [page for page in (*GUIDES, *CONCEPTS, DOCS / "changes.md") if not needs_spark(page)]


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)


def test_rows_page_shows_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / "rows.md", tmp_path)
    assert "commit 1 of 1" in capsys.readouterr().out


def test_every_guide_has_an_example() -> None:
    assert len(GUIDES) >= 8
    assert len(CONCEPTS) >= 7
    assert not [page.name for page in (*GUIDES, *CONCEPTS) if not blocks(page)]


def test_guides_are_short() -> None:
    long = [page.name for page in GUIDES if len(page.read_text().splitlines()) > 160]
    assert not long, "a guide leads to what the reader wants; details have pages of their own"


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_an_example_that_fails_is_found(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```python\nx = 1\n```\ntext\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_page(page, tmp_path)
    assert caught.traceback[-1].lineno == 5  # counted from 0


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```sh\npip install x\nhoodoo show /data/nothing\n```\n")
    with pytest.raises(AssertionError, match="no table at"):
        run_page(page, tmp_path)


def test_a_block_that_is_only_shown_is_not_run(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```sh example\nhoodoo show /data/nothing\n```\n```json\n{\n```\n")
    assert run_page(page, tmp_path) == {}
    page = write_page(tmp_path, "```python spark\nx = 1\n```\n")
    assert needs_spark(page)
    assert run_page(page, tmp_path)["x"] == 1
