"""Makes names of configuration keys links to their line in the reference."""

from __future__ import annotations

import re
from collections.abc import Callable

from hoodoo.config import AREAS

PAGE = "reference/config.md"
KEYS = frozenset(key.name for keys in AREAS.values() for key in keys)
CODE = re.compile(r"(<a [^>]*>)?<code>(hood(?:ie|oo)\.[\w.]+)((?:=[^<]*)?)</code>")
LINE = re.compile(r"<td><code>(hood(?:ie|oo)\.[\w.]+)</code></td>")


def link_keys(html: str, uri: str, link_to: Callable[[str], str]) -> str:
    """The HTML of a page: the reference gets an anchor for each key, other pages get links."""
    if uri == PAGE:
        return LINE.sub(r'<td><code id="\1">\1</code></td>', html)

    def link(code: re.Match[str]) -> str:
        if code[1] or code[2] not in KEYS:
            return code[0]
        return f'<a class="api" href="{link_to(PAGE)}#{code[2]}">{code[0]}</a>'

    return CODE.sub(link, html)
