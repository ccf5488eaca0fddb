"""Reading SQL text token by token: what the parsers of filters and of expressions share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

from hoodoo.errors import InputError

Token = tuple[str, str, int]
"""Its kind, its text, and where that begins."""

MAX_DEPTH = 100


class SqlReader:
    """Takes the tokens of a text one after the other; errors are `InputError`s that tell where.

    A pattern has a group for each kind of token; `word` or `name`, and `op`, are what `take` takes.
    """

    def __init__(self, text: str, pattern: re.Pattern[str], what: str) -> None:
        self._text, self._what = text, what
        self._tokens = list(self._split(pattern))
        self._position = 0

    def _split(self, pattern: re.Pattern[str]) -> Iterator[Token]:
        position = 0
        while self._text[position:].strip():
            match = pattern.match(self._text, position)
            if match is None or match.lastgroup is None:
                raise self.error("unexpected character", position)
            yield match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)
            position = match.end()

    def error(self, reason: str, position: int | None = None) -> InputError:
        """What is wrong at a position, or at the next token."""
        at = self.peek()[2] if position is None else position
        near = self._text[at : at + 20].strip()
        where = f"near {near!r}" if near else "at the end"
        return InputError(f"{self._what} {self._text!r}: {reason} {where}")

    def peek(self) -> Token:
        """The next token; of kind `end` behind the last."""
        if self._position < len(self._tokens):
            return self._tokens[self._position]
        return ("end", "", len(self._text))

    def next(self) -> Token:
        """The next token, taken."""
        token = self.peek()
        self._position += 1
        return token

    def take(self, *words: str) -> str | None:
        """The next token, in lower case, if it is one of these; else None, and it stays."""
        kind, text, _ = self.peek()
        if kind in ("word", "name", "op") and text.lower() in words:
            self._position += 1
            return text.lower()
        return None

    def expect(self, word: str) -> None:
        """Take this word, or fail."""
        if not self.take(word):
            raise self.error(f"expected {word!r}")

    def expect_end(self) -> None:
        """Fail if there is more."""
        if self.peek()[0] != "end":
            raise self.error("unexpected text")

    def take_string(self) -> str:
        """A text in single quotes, without them."""
        kind, text, position = self.next()
        if kind != "string":
            raise self.error("expected a text in single quotes", position)
        return unquote(text)

    def take_moment(self, word: str, position: int) -> date:
        """What follows `date` or `timestamp`, whose position is given."""
        iso = self.take_string()
        try:
            return date.fromisoformat(iso) if word == "date" else datetime.fromisoformat(iso)
        except ValueError:
            raise self.error(f"{iso!r} is not a {word}", position) from None


def unquote(text: str) -> str:
    """A token of a text without its quotes."""
    return text[1:-1].replace("''", "'")
