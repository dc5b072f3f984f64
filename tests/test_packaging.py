"""What the wheel and the sdist hold. CI installs the wheel into an empty environment besides (.ci/run).

`KTRACE_DIST` names a folder in which they are, or will be in a moment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT


def python_files(folder: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts and not any(part.is_symlink() for part in path.parents)
    }


def built(out: Path) -> Path:
    """A folder with the sdist and the wheel that is built from it: that of `KTRACE_DIST`, else `out`."""
    if "KTRACE_DIST" in os.environ:
        dist, patience = Path(os.environ["KTRACE_DIST"]), time.monotonic() + 120
        while not dist.exists():
            assert time.monotonic() < patience, f"nothing was built into {dist}"
            time.sleep(0.2)
        return dist
    done = subprocess.run([sys.executable, "-m", "build", "-o", out, ROOT], capture_output=True, text=True, check=False)
    if done.returncode and "pip" in done.stderr and "Could not find a version" in done.stderr:
        pytest.skip("the build backend can't be fetched here")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_and_the_sdist_hold_what_they_should(tmp_path: Path) -> None:
    """One test, so that two processes of a run don't build in one folder at once."""
    dist = built(tmp_path)
    check_wheel(dist)
    check_sdist(dist)


def check_wheel(dist: Path) -> None:
    """Every module, the schema, pages and templates."""
    names = set(zipfile.ZipFile(next(dist.glob("*.whl"))).namelist())
    expected = python_files("ktrace")
    for given in ("converters", "schema", "proto"):
        expected |= {f"ktrace/{name}" for name in python_files(given)}
    assert len(expected) > 40
    assert expected <= names
    assert "ktrace/schema/ktrace-1.schema.json" in names
    assert {"ktrace/py.typed", "ktrace/page/page.css", "ktrace/page/page.js"} <= names
    pages = pytest.importorskip("ktrace.analysis.answers.mcp.server", reason="the extra mcp isn't installed").pages
    handed_out = {uri.replace("ktrace://", "ktrace/analysis/answers/mcp/") for uri in pages()}
    assert len(handed_out) > 5
    assert handed_out <= names
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "ktrace/cli/_templates").rglob("*") if path.is_file()}
    assert len(templates) > 20
    assert templates <= names
    # Nothing under the bare names, nothing that belongs to the repository alone.
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"ktrace"}


def check_sdist(dist: Path) -> None:
    """What it takes to test and to build again."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for folder in ("ktrace", "converters", "schema", "proto", "tests"):
        assert python_files(folder) <= names
    files = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "setup.cfg",
        "setup.py",
        "tox.ini",
        "requirements-lowest.txt",
        "schema/ktrace-1.schema.json",
    }
    assert files <= names
    samples = {str(path.relative_to(ROOT)) for path in (ROOT / "samples").rglob("*") if path.is_file()}
    assert samples <= names
