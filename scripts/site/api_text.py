"""Signatures and docstrings as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from hoodoo.model.commit import WriteNotes
from hoodoo.spark.datasource.stream_sink import StreamOptions

WIDTH = 88
FOR_DEVELOPERS = ("Needs:", "Order:", "Crash:")
UNPACKED = {"WriteNotes": WriteNotes, "StreamOptions": StreamOptions}


def signature(name: str, function: Any) -> str:
    """How a call is written, one argument a line if it is long."""
    told = inspect.signature(inspect.unwrap(function))
    arguments, is_star_shown = [], False
    for each in told.parameters.values():
        if each.name == "self":
            continue
        if each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) and not is_star_shown:
            arguments.append("*")
            is_star_shown = True
        if each.kind is each.VAR_KEYWORD:
            arguments += _unpacked(str(each.annotation))
        else:
            default = "" if each.default is each.empty else f" = {_literal(each.default)}"
            arguments.append(f"{each.name}: {each.annotation}{default}")
    result = f" -> {told.return_annotation}"
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){result}"])


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _unpacked(annotation: str) -> list[str]:
    """The arguments that `**notes: Unpack[WriteNotes]` stands for."""
    kind = UNPACKED[annotation.removeprefix("Unpack[").removesuffix("]")]
    hints = inspect.get_annotations(kind).items()
    return [f"{name}: {getattr(hint, '__forward_arg__', hint)} = ..." for name, hint in hints]


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, in one line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def as_markdown(text: str) -> str:
    """A docstring: paragraphs, and examples as code; what is for developers is left out."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        if lines[0].startswith((" ", ">>>")):
            code = re.sub(" *# doctest: .*", "", textwrap.dedent("\n".join(lines)))
            language = "pycon" if code.startswith(">>>") else "python"
            parts.append(f"```{language}\n{code}\n```")
        else:
            parts.append("\n".join(_for_users(lines)))
    return "\n\n".join(part for part in parts if part)


def _for_users(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(FOR_DEVELOPERS):
            return
        yield line


def field_docs(kind: type) -> dict[str, str]:
    """The texts that stand below fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    told: dict[str, str] = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(t))
            ):
                told[name] = " ".join(t.split()).replace("|", "\\|")
    return told
