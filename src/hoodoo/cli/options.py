"""Arguments and options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.table.ref import TableRef, open_ref

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Path or URI of the table.", show_default=False)
]
OptionList = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="A hoodie.* setting or a storage option; may be given several times.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=0, help="How many to show at most; 0: all.", show_default=False
    ),
]


def parse_options(texts: list[str] | None) -> dict[str, str]:
    """`["a=b"]` as a mapping; a wrong form is a usage error."""
    options = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--option")
        options[key.strip()] = value
    return options


def open_with_options(table: str, options: list[str] | None) -> TableRef:
    """The table that a command names."""
    return open_ref(table, parse_options(options))


def split_names(text: str | None) -> list[str] | None:
    """`a,b` as a list; None where nothing was given."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def effective_limit(limit: int | None, *, as_json: bool, default: int) -> int | None:
    """How many to show: what was asked for, else all as JSON, and `default` as text."""
    if limit is None:
        return None if as_json else default
    return limit or None
