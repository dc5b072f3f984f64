"""Headless Chromium for the tests that look at pages as people do."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: Flags for a browser that talks to nobody: not every machine lets it make a sandbox, or has a GPU.
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Each window would get two pages for what drops down from the address bar: a second of CPU time.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
)


@contextmanager
def chromium() -> Iterator[Any]:
    """A fresh browser; the test is skipped where there is none, or nothing to drive it with."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("no playwright to drive a browser with (pip install playwright)")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=_FLAGS)
        yield browser
        browser.close()


@contextmanager
def local_pages(browser: Any, width: int, timeout: int) -> Iterator[Any]:
    """A fresh profile with pages of this width that reach nothing but files and this machine; it waits so many ms."""
    made = browser.new_context(viewport={"width": width, "height": 900})
    made.set_default_timeout(timeout)
    made.route("**/*", lambda route: route.abort())
    made.route("http://127.0.0.1:*/**", lambda route: route.continue_())
    made.route("file://**", lambda route: route.continue_())
    yield made
    made.close()
