"""speedscope's own importer, from its npm package, opens what we write; and its schema accepts it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browser
import jsonschema
import pytest
from conftest import SAMPLES

import ktrace

PACKAGE = "speedscope@1.25.0"


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built application, with a profile of ours."""
    folder = tmp_path_factory.mktemp("speedscope")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to get speedscope with")
    try:
        done = subprocess.run(
            [npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm doesn't answer")
    if done.returncode:
        pytest.skip(f"npm can't get {PACKAGE}: {done.stderr[-200:]}")
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    release = folder / "package" / "dist" / "release"
    ktrace.convert(SAMPLES / "kineto/one-step-of-training.pt.trace.json", release / "ours.speedscope.json")
    return release


@pytest.fixture
def served(speedscope: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(speedscope))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_its_schema_accepts_our_profile(speedscope: Path) -> None:
    schema = json.loads((speedscope / "file-format-schema.json").read_text())
    profile = json.loads((speedscope / "ours.speedscope.json").read_text())
    jsonschema.validate(profile, schema)
    profile["profiles"][0]["events"][0]["type"] = "neither open nor close"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(profile, schema)


@pytest.mark.nightly
def test_its_importer_opens_our_profile(served: str, speedscope: Path) -> None:
    names = [profile["name"] for profile in json.loads((speedscope / "ours.speedscope.json").read_text())["profiles"]]
    problems: list[str] = []
    with browser.chromium() as chromium:
        page = chromium.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        page.goto(f"{served}/index.html#profileURL={served}/ours.speedscope.json")
        page.wait_for_function("document.title.includes('speedscope') && document.body.innerText.includes('(1/')")
        shown = page.inner_text("body")
    assert problems == []
    assert f"(1/{len(names)})" in shown
    assert names[0] in shown
