"""Hooks of mkdocs: what the site has beyond the pages of docs/, and how links find it.

- README and other pages of the repository become pages of the site (`PAGES`), the notebook as Markdown.
- Any other file of the repository that a page links to is copied to `files/`.
- A pattern in the nav of mkdocs.yml lists its pages in the order, and below the headings, of docs/README.md.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent

#: Path in the repository -> path in the site, of pages that aren't at the same place in both.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "docs/ktrace.ipynb": "notebook.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "samples/README.md": "samples.md",
}

_FENCE = re.compile(r"^(```.*?^```)[^\n]*$", re.M | re.S)
_LINK = re.compile(r"\]\(([^()\s#]+)(#[^()\s]*)?\)")
_ROW = re.compile(r"^\| ([^|\[\]]+?) \| (.*) \|$|^- (.*)$|^(\[.*)$", re.M)


def on_config(config: MkDocsConfig) -> None:
    """Replaces each pattern in the nav by its pages; what the nav lacks of docs/ comes last in its first section."""
    index = (ROOT / "docs/README.md").read_text("utf-8")
    for section in config.nav or []:
        for title, content in section.items():
            if isinstance(content, str) and "*" in content:
                section[title] = _listed(index, content.partition("/")[0])
    known = json.dumps(config.nav)
    others = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if f'"{path.name}"' not in known]
    if config.nav:
        config.nav[0]["Start"] += [name for name in others if name != "README.md"]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages from outside of docs/, and the files of the repository that pages link to."""
    if found := files.get_file_from_path("README.md"):
        files.remove(found)
    for path, uri in PAGES.items():
        text = (ROOT / path).read_text("utf-8")
        files.append(File.generated(config, uri, content=_notebook(text) if path.endswith(".ipynb") else text))
    for page in files.documentation_pages():
        for path in _links(page.content_string, _in_repository(page.src_uri)):
            uri = _in_site(path)
            if files.get_file_from_path(uri) is None and (ROOT / path).is_file():
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links between files of the repository links between files of the site."""
    source = _in_repository(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        uri = _in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        return f"]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    # Code stays as it is: `_FENCE` splits into text, fence, text, ...
    parts = _FENCE.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(moved, part) for number, part in enumerate(parts))


def _links(markdown: str, source: str) -> Iterator[str]:
    """The paths in the repository that a page links to."""
    for target, _ in _LINK.findall(_FENCE.sub("", markdown)):
        if "://" not in target:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _in_repository(uri: str) -> str:
    """The path in the repository of a page of the site."""
    return next((path for path, page in PAGES.items() if page == uri), f"docs/{uri}")


def _in_site(path: str) -> str:
    """The path in the site of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"


def _listed(index: str, folder: str) -> list[Any]:
    """The pages of a folder as docs/README.md lists them; a row of a table is a section, its first cell the title."""
    nav: list[Any] = []
    for title, *cells in _ROW.findall(index):
        pages = re.findall(rf"\[([^\]]+)\]\(({folder}/[^)]+\.md)\)", "".join(cells))
        entries = [{name: path} for name, path in pages]
        nav += [{title: entries}] if title and len(entries) > 0 else entries
    return nav


def _notebook(text: str) -> str:
    """A notebook as Markdown: its texts, its code, what the code printed."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown = "".join(output.get("text") or data.get("text/plain", ""))
            picture = "".join(data.get("text/html") or data.get("image/svg+xml") or "")
            parts.append(f"<div>\n{picture}\n</div>" if picture else f"```\n{shown.rstrip()}\n```")
    return "\n\n".join(parts)
