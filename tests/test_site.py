"""The site of the docs: mkdocs builds it without a network; every page is in it and can be searched."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import chromium
from conftest import ROOT
from markdown_it import MarkdownIt

#: Page of the site -> its file in the repository, of those whose path isn't the same.
MOVED = {
    "index": "README.md",
    "pages": "docs/README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "benchmarks": "benchmarks/README.md",
    "samples": "samples/README.md",
    "notebook": "docs/ktrace.ipynb",
}

#: What two renderers of the same Markdown must agree on.
COUNTED = ("h2", "h3", "li", "ol", "tr", "td", "pre", "code", "img", "strong", "em")


class Page(HTMLParser):
    """Links, anchors, resources and the tags of the text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.tags: Counter[str] = Counter()
        self._depth = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        else:
            self.resources += [found[name] for name in ("src", "href", "srcset", "data") if name in found]
        self._depth += tag == "article"
        self.tags[tag] += bool(self._depth)

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. `--strict` fails at a link, an anchor or a page that isn't in the nav."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material isn't installed (pip install -e '.[docs]')")
    out = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", out, "-f", ROOT / "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[str, Page]:
    """Path in the site, without .html -> page."""
    paths = (path for path in site.rglob("*.html") if path.name != "404.html" and "files" not in path.parts)
    return {path.relative_to(site).with_suffix("").as_posix(): Page(path) for path in paths}


def sources() -> dict[str, Path]:
    """Path in the site, without .html -> file in the repository."""
    docs = ROOT / "docs"
    found = {path.relative_to(docs).with_suffix("").as_posix(): path for path in docs.rglob("*.md")}
    del found["README"]
    return found | {page: ROOT / path for page, path in MOVED.items()}


def test_every_page_is_there_and_in_the_nav(pages: dict[str, Page]) -> None:
    assert pages.keys() == sources().keys()
    assert len(pages) > 80
    reached = {urlsplit(link).path.removesuffix(".html") for link in pages["index"].links if "://" not in link}
    assert {name for name in pages if name != "index"} <= reached


def test_nothing_comes_from_another_server(site: Path, pages: dict[str, Page]) -> None:
    resources = {(name, url) for name, page in pages.items() for url in page.resources}
    assert len(resources) > 500
    assert {(name, url) for name, url in resources if re.match(r"(?:https?:)?//", url)} == set()
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert len(styles) > 1
    assert [url for style in styles for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)]*)", style)] == []


def test_links_and_resources_lead_somewhere(site: Path, pages: dict[str, Page]) -> None:
    missing = []
    for name, page in pages.items():
        for link in page.links + page.resources:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("data:"):
                continue
            target = ((site / name).parent / unquote(parts.path)).resolve() if parts.path else site / f"{name}.html"
            other = target.relative_to(site).with_suffix("").as_posix() if target.suffix == ".html" else ""
            if not target.exists() or (
                other in pages and parts.fragment and parts.fragment not in pages[other].anchors
            ):
                missing.append((name, link))
    assert [(name, link) for name, link in missing if not link.endswith("#__skip")] == []


#: What a skill says of itself above its page; neither GitHub nor the site shows it as text.
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)


def test_pages_look_as_on_github(pages: dict[str, Page]) -> None:
    """A list without a blank line before it, or code that isn't deep enough in a list, is text for Python-Markdown."""
    parser = MarkdownIt("commonmark").enable("table")
    compared = 0
    for name, path in sources().items():
        if path.suffix != ".md":
            continue
        tags = Counter(re.findall(r"<(\w+)", parser.render(_FRONT.sub("", path.read_text("utf-8")))))
        assert {tag: pages[name].tags[tag] for tag in COUNTED} == {tag: tags[tag] for tag in COUNTED}, path
        compared += sum(tags[tag] for tag in COUNTED)
    assert compared > 3000


def test_the_notebook_is_a_page(pages: dict[str, Page]) -> None:
    cells = json.loads((ROOT / "docs/ktrace.ipynb").read_text("utf-8"))["cells"]
    code = sum(cell["cell_type"] == "code" for cell in cells)
    assert pages["notebook"].tags["pre"] >= code > 5


def test_search_has_every_page(site: Path, pages: dict[str, Page]) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    text: dict[str, int] = Counter()
    for entry in index:
        text[entry["location"].partition("#")[0].removesuffix(".html") or "index"] += len(entry["text"])
    assert text.keys() == pages.keys()
    assert min(text.values()) > 100


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.nightly
@pytest.mark.parametrize("of_a_folder", [False, True])
def test_a_browser_searches_and_fits_a_phone(site: Path, served: str, *, of_a_folder: bool) -> None:
    with chromium() as browser:
        if of_a_folder:
            served = f"{site.resolve().as_uri()}/"
        page = browser.new_page(viewport={"width": 390, "height": 844})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "commands/summary", "formats/kineto"):
            page.goto(f"{served}{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") == 390, name
        page.set_viewport_size({"width": 1280, "height": 800})
        page.locator("input.md-search__input").click()
        page.keyboard.type("flight recorder")
        result = page.locator("li.md-search-result__item", has_text="last collectives").first
        result.wait_for(state="attached", timeout=60_000)
        assert "nccl-flight-recorder" in result.locator("a").first.get_attribute("href", timeout=60_000)
        assert [url for url in asked if not url.startswith(served)] == []
        assert any(url.endswith("search_index.js" if of_a_folder else "search_index.json") for url in asked)
