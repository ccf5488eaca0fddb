"""What `make site` does to the pages of docs/ on their way to HTML: the hooks of mkdocs.yml.

The pages are plain Markdown that reads well in a repository. The site adds pages that are
generated (`api_pages`), options of commands (`cli_options`), pages from outside docs/
(`outside_links`), and the program that draws diagrams (`diagrams`). Nothing of it is committed, and
nothing on the site comes from another host.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))

import api_pages  # noqa: E402 - its folder is on the path only now
import cli_options  # noqa: E402 - the same
import diagrams  # noqa: E402 - the same
import key_links  # noqa: E402 - the same
import outside_links  # noqa: E402 - the same
from mkdocs.structure.files import File, Files  # noqa: E402 - the same

LOG = logging.getLogger("mkdocs.hoodoo")
FENCE = re.compile(r"^```(\w+) [\w -]+$", re.MULTILINE)
# What a browser would fetch from another host when it shows a page.
OUTSIDE = re.compile(
    r'<(?:script|img|iframe|link(?![^>]*rel="(?:canonical|prev|next)"))\b'
    r'[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"'
)
KEY = re.compile(r"(?<=>)hood(?:ie|oo)\.[\w.]{20,}(?=(?:=[^<]*)?</code>)")
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
WITHOUT_SIDEBAR = ("README.md", "quick-start.md")  # sections of one page
STYLES, LOGO, MERMAID = "assets/site.css", "assets/hoodoo.svg", "assets/mermaid.min.js"


def on_files(files: Files, config: Any) -> Files:
    """Add what docs/ does not have: generated pages, pages of the repository, the looks."""
    for uri, text in {**api_pages.pages(), **outside_links.pages(ROOT)}.items():
        files.append(File.generated(config, uri, content=text))
    for uri, name in ((STYLES, "site.css"), (LOGO, "hoodoo.svg")):
        files.append(File.generated(config, uri, abs_src_path=str(HERE / name)))
    program = diagrams.fetch_mermaid(ROOT / "build")
    config.extra["draws_diagrams"] = program is not None
    if program is None:
        LOG.info("Diagrams are shown as text: mermaid could not be fetched by npm")
    else:
        files.append(File.generated(config, MERMAID, abs_src_path=str(program)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Bring a page into the form that mkdocs wants."""
    uri = page.file.src_uri
    if uri == "cli.md":
        markdown = cli_options.add_options(markdown)
    markdown = FENCE.sub(r"```\1", markdown)  # a second word is for the tests of the page
    if uri in WITHOUT_SIDEBAR:
        page.meta["hide"] = ["navigation"]
    if not config.extra["draws_diagrams"]:
        markdown = markdown.replace("```mermaid", "```text")
    markdown = diagrams.make_compact(markdown)
    return outside_links.rewrite(markdown, uri)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Make names of the interface links to its reference; load mermaid where it has to draw."""

    def link_to(uri: str) -> str:
        return str(files.src_uris[uri].url_relative_to(page.file))

    # Python's Markdown leaves the backslash in `a\|b` of a table.
    html = CELL.sub(lambda cell: cell[0].replace("\\|", "|"), html)
    html = api_pages.link_names(html, page.file.src_uri, link_to)
    html = key_links.link_keys(html, page.file.src_uri, link_to)
    if 'class="mermaid"' in html:
        html = diagrams.make_scroll(html) + f'<script src="{link_to(MERMAID)}"></script>'
    return html


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Warn, which strict builds take for an error, of what comes from another host.

    Long keys may be broken behind their dots; search has read them whole before.
    """
    for found in OUTSIDE.findall(output):
        LOG.warning("%s loads from another host: %s", page.file.src_uri, found)
    return KEY.sub(lambda key: key[0].replace(".", ".<wbr>"), output)
