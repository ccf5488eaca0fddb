"""Text for people or JSON for programs; nothing else in `cli` prints.

Tables are laid out here: rich takes milliseconds for each row, and its import a fifth of the
time that a small command has.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from unicodedata import combining, east_asian_width

from hoodoo.model.names import json_name

# Data must not be able to move the cursor or break lines of a table.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_CONTROLS |= {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


def print_line(text: str = "") -> None:
    """One line of text."""
    sys.stdout.write(f"{text}\n")


def print_error(error: Exception) -> None:
    """An error in one line on stderr."""
    sys.stderr.write(f"hoodoo: {cell(' '.join(str(error).split()))}\n")


def print_json(value: object) -> None:
    """A report (dataclasses, mappings, sequences) as one JSON document."""
    import json

    print_line(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_json_line(value: object) -> None:
    """The same on one line, for what comes bit by bit."""
    import json

    print_line(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """A report as JSON knows it: dataclasses become objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return {json_name(field): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return value


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    indent: str = "",
    above: Mapping[int, str] | None = None,
    below: Mapping[int, Sequence[str]] | None = None,
) -> None:
    """Rows in aligned columns; columns named in `numbers` are aligned to the right.

    `above` and `below` are lines ahead of a row and after it, by its number; those after it are
    set off, and wrapped at 80 columns.
    """
    lines = [[cell(header) for header in headers]]
    lines += [[cell(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    right = [header in numbers for header in headers]
    lines.insert(1, ["-" * width for width in widths])
    for at, line in enumerate(lines, start=-2):
        if above and at in above:
            print_line(indent + cell(above[at]))
        cells = map(_pad, line, widths, right)
        print_line(indent + "  ".join(cells).rstrip())
        for note in (below or {}).get(at, ()):
            print_wrapped(note, indent=indent + "  ")


def print_wrapped(text: str, *, indent: str = "") -> None:
    """Text in lines of at most 80 columns; words stay whole."""
    from textwrap import wrap

    for line in wrap(
        cell(text),
        80,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    ):
        print_line(line)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line."""
    texts = [(name, cell(value)) for name, value in pairs]
    width = max((len(name) for name, _ in texts), default=0)
    for name, text in texts:
        print_line(f"{name:<{width}}  {text}".rstrip())


def cell(value: object) -> str:
    """A value as text on one line; nothing for None."""
    return "" if value is None else str(value).translate(_CONTROLS)


def size_text(size_bytes: int) -> str:
    """`12 B`, `1.5 MiB`: the largest unit that gives at least 1."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def age_text(seconds: float | None) -> str:
    """`2d 3h`, `3h 12m`, `12m 5s`, `5s`: the two largest units."""
    if seconds is None:
        return ""
    rest = int(abs(seconds))
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return ("-" if seconds <= -1 else "") + " ".join(parts[:2])


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(combining(character) != 0 for character in text)
