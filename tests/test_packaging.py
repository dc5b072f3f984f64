"""What the wheel and the sdist hold. CI installs the wheel into an empty environment besides (.ci/run)."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from ktrace.analysis.mcp.pages import pages


def python_files(folder: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts and not any(part.is_symlink() for part in path.parents)
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run([sys.executable, "-m", "build", "-o", out, ROOT], capture_output=True, text=True, check=False)
    if done.returncode and "pip" in done.stderr and "Could not find a version" in done.stderr:
        pytest.skip("the build backend can't be fetched here")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_holds_every_module_and_the_schema(built: Path) -> None:
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    expected = python_files("ktrace")
    for given in ("converters", "schema", "proto"):
        expected |= {f"ktrace/{name}" for name in python_files(given)}
    assert len(expected) > 40
    assert expected <= names
    assert "ktrace/schema/ktrace-1.schema.json" in names
    assert {"ktrace/py.typed", "ktrace/page/page.css", "ktrace/page/page.js"} <= names
    handed_out = {uri.replace("ktrace://", "ktrace/analysis/mcp/") for uri in pages()}
    assert len(handed_out) > 5
    assert handed_out <= names
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "ktrace/cli/_templates").rglob("*") if path.is_file()}
    assert len(templates) > 25
    assert templates <= names
    # Nothing under the bare names, nothing that belongs to the repository alone.
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"ktrace"}


def test_the_sdist_holds_what_it_takes_to_test_and_build_again(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
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
