"""Mermaid, which draws the diagrams in the reader's browser: fetched once by npm, never committed.

Without npm, or without a network, there is none: then the site shows diagrams as text.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "11.17.2"
SHA256 = "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8"
MEMBER = "package/dist/mermaid.min.js"
PATIENCE_SECONDS = 120
SMALL = "13px"
OWN_SIZE = {
    "themeVariables": {"fontSize": SMALL},
    "flowchart": {"useMaxWidth": False, "nodeSpacing": 25, "rankSpacing": 30, "padding": 10},
    "sequence": {
        "useMaxWidth": False,
        "actorFontSize": SMALL,
        "messageFontSize": SMALL,
        "noteFontSize": SMALL,
        "width": 120,
        "height": 40,
        "actorMargin": 40,
        "messageMargin": 25,
    },
    "state": {"useMaxWidth": False},
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


def at_own_size(markdown: str) -> str:
    """Diagrams that are not scaled to the width of the page: their texts stay readable."""
    settings = f"%%{{init: {json.dumps(OWN_SIZE)}}}%%"
    return markdown.replace("```mermaid\n", f"```mermaid\n{settings}\n")


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
