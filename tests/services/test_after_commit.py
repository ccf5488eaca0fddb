"""A table that is only written to stays in shape."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.old_tables import Story, new_story

AUTOMATIC = {
    "hoodie.clean.automatic": True,
    "hoodie.clean.trigger.max.commits": 1,
    "hoodie.archive.automatic": True,
}


def write(story: Story, commits: int) -> None:
    for v in range(commits):
        story.upsert(v, "a", "b")
        story.age()


def test_commits_clean_and_archive_by_default(tmp_path: Path) -> None:
    story = new_story(tmp_path, **AUTOMATIC)
    write(story, 14)
    assert len(story.data_files()) <= 4
    assert len(story.table._ref.load_timeline().commits) <= 6
    assert len(story.table.timeline(include_archived=True)) > 14
    story.check(kept=2)


def test_commits_neither_clean_nor_archive_if_told_so(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    write(story, 8)
    assert len(story.data_files()) == 8
    assert len(story.table.timeline()) == 8
    story.check(kept=8)


def test_a_clean_waits_until_so_many_commits_came(tmp_path: Path) -> None:
    story = new_story(tmp_path, **{**AUTOMATIC, "hoodie.clean.trigger.max.commits": 3})
    write(story, 9)
    cleans = [each for each in story.table.timeline() if each.action == "clean"]
    assert 1 < len(cleans) < 4


def test_a_commit_stands_whatever_becomes_of_its_upkeep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {"hoodie.keep.min.commits": 5, "hoodie.keep.max.commits": 4}
    story = new_story(tmp_path, **{**AUTOMATIC, **bad})
    with caplog.at_level(logging.WARNING, "hoodoo.services"):
        write(story, 6)
    assert "service=archive outcome=failed" in caplog.text
    story.check(kept=2)
