"""Mermaid, which draws the diagrams in the reader's browser: fetched once by npm, never committed.

Without npm, or without a network, there is none: then the site shows diagrams as text.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "11.9.0"  # later ones of 11 have other ids of arrowheads, which the theme does not colour
SHA256 = "0b3ed4374117363815daefdadfcc20ff704d7dd4513b55ed803abddcbd86a898"
MEMBER = "package/dist/mermaid.min.js"
PATIENCE_SECONDS = 120
SMALL = "13px"
COMPACT = {
    "themeVariables": {"fontSize": SMALL},
    "flowchart": {"nodeSpacing": 25, "rankSpacing": 30, "padding": 10},
    "sequence": {
        "actorFontSize": SMALL,
        "messageFontSize": SMALL,
        "noteFontSize": SMALL,
        "width": 120,
        "height": 40,
        "actorMargin": 40,
        "messageMargin": 25,
    },
}


def fetch_mermaid(folder: Path) -> Path | None:
    """The program, in this folder; None if it cannot be had."""
    place = folder / f"mermaid-{VERSION}.min.js"
    if not (place.exists() and _is_right(place.read_bytes())):
        data = _download()
        if data is None:
            return None
        if not _is_right(data):
            raise ValueError(f"mermaid {VERSION} from npm is not the file that was pinned")
        folder.mkdir(exist_ok=True)
        place.write_bytes(data)
    return place


def make_compact(markdown: str) -> str:
    """Give the diagrams of a page small texts and gaps, so that few are wider than the page."""
    settings = f"%%{{init: {json.dumps(COMPACT)}}}%%"
    return markdown.replace("```mermaid\n", f"```mermaid\n{settings}\n")


def make_scroll(html: str) -> str:
    """Put diagrams into frames, in which wide ones scroll on a small screen (`site.css`)."""
    return re.sub(
        r'<pre class="mermaid">.*?</pre>',
        r'<div class="diagram">\g<0></div>',
        html,
        flags=re.DOTALL,
    )


def _is_right(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256


def _download() -> bytes | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        try:
            subprocess.run(
                [npm, "pack", "--silent", f"mermaid@{VERSION}"],
                cwd=place,
                check=True,
                capture_output=True,
                timeout=PATIENCE_SECONDS,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        (archive,) = Path(place).glob("*.tgz")
        with tarfile.open(archive) as members:
            found = members.extractfile(MEMBER)
            return found.read() if found else None
