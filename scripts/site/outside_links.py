"""Links that leave docs/: some lead to pages that the site has too, others become plain text.

The repository has no public address, so a link to a source file has nowhere to lead on the site:
there its text stays, with the path beside it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

# Pages of the repository that the site shows, and where.
SHOWN = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
INSTEAD = {**SHOWN, "README.md": "README.md"}
# Code comes first: what looks like a link in it is none. A title in quotes may follow the target.
CODE_OR_LINK = re.compile(
    r"^```.*?^```|`[^`\n]*`"
    r"|\[((?:[^\]`]|`[^`\n]*`)*)\]\(([^)\s]+)(?:\s+\"([^\"]*)\")?\)",
    re.MULTILINE | re.DOTALL,
)


def pages(root: Path) -> dict[str, str]:
    """The pages from outside docs/, by their place on the site."""
    return {place: _as_in_docs((root / name).read_text()) for name, place in SHOWN.items()}


def _as_in_docs(text: str) -> str:
    """A page of the repository's root, with the links that it would have in docs/."""

    def move(match: re.Match[str]) -> str:
        label, target, _ = match.groups()
        if target is None or "://" in target or target.startswith("#"):
            return match[0]
        inside = target.removeprefix("docs/")
        return f"[{label}]({inside if inside != target else f'../{target}'})"

    return CODE_OR_LINK.sub(move, text)


def rewrite(text: str, uri: str) -> str:
    """The text of the page at `uri` with its links out of docs/ replaced; code stays.

    A link with a title, which is a part of the file, becomes text that tells both when pointed at.
    """
    folder = posixpath.dirname(uri)

    def replace(match: re.Match[str]) -> str:
        label, target, title = match.groups()
        path, hash_sign, anchor = (target or "").partition("#")
        place = posixpath.normpath(posixpath.join(folder, path))
        if "://" in path or not path or not place.startswith("../"):
            return match[0]
        outside = place.removeprefix("../")
        if outside in INSTEAD:
            inside = posixpath.relpath(INSTEAD[outside], folder or ".")
            return f"[{label}]({inside}{hash_sign}{anchor})"
        if title:
            return f'<abbr title="{outside}: {title}">{label}</abbr>'
        name = posixpath.basename(outside)
        return f"`{outside}`" if label.strip("`") == name else f"{label} (`{outside}`)"

    return CODE_OR_LINK.sub(replace, text)
