"""Adds to each section of docs/cli.md how its commands are called, and their options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, cast

import typer

from hoodoo.cli.main import app

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def add_options(markdown: str) -> str:
    """The page with a folded table of options at the end of each section."""
    commands = _commands()
    pieces = HEADING.split(markdown)
    parts = [pieces[0]]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts.append(f"## {title}\n{body.rstrip()}\n\n")
        for name in title.split(", "):
            for words, command in commands.pop(name, {}).items():
                parts.append("\n".join(_options(words, command)) + "\n\n")
    if commands:
        raise ValueError(f"docs/cli.md has no section for: {', '.join(commands)}")
    return "".join(parts)


def _commands() -> dict[str, dict[str, Any]]:
    """Commands by the name that their section has, and by all their words."""
    found: dict[str, dict[str, Any]] = {}
    for name, command in cast(Any, typer.main.get_command(app)).commands.items():
        members = getattr(command, "commands", None)
        named = {f"{name} {each}": member for each, member in (members or {}).items()}
        found[name] = named or {name: command}
    return found


def _options(words: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"hoodoo {words}")
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    usage = re.sub(r"\{(\w+)\}", r"\1", usage)
    yield from (f'??? abstract "`hoodoo {words}`: all options"', "", "    ```text")
    yield from (f"    {usage}", "    ```", "")
    yield from (f"    {' '.join(inspect.cleandoc(command.help or '').split())}", "")
    yield from ("    | | |", "    |---|---|")
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record:
            left, right = (" ".join(text.split()).replace("|", "\\|") for text in record)
            yield f"    | `{_in_words(left)}` | {right} |"


def _in_words(option: str) -> str:
    """An option without the names of Python's types."""
    return re.sub(r"<(int|float)( range)?>", "N", option).replace("<str>", "TEXT")
