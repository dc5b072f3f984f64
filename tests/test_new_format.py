"""`ktrace new-format`: what it lays passes the contract at once, in the repository and in a package of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from nightly import few

from ktrace.cli.new_format import LIKES

NAME = "zz-made-up"
MODULE = "zz_made_up"


def run(*arguments: object, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder, with another one first where modules are looked for."""
    environment = os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def pytest_run(*arguments: object, folder: Path, path: Path) -> str:
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, folder=folder, path=path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the parts of the repository that a format is laid into; samples of one other format.

    With what Python compiled of them, which no process writes here: else each would compile all that it imports.
    """
    root = tmp_path / "ktrace"
    for folder in (
        "ktrace",
        "converters",
        "schema",
        "proto",
        "docs",
        "tests/helpers",
        "tests/golden_rows",
        "samples/mlc",
    ):
        shutil.copytree(ROOT / folder, root / folder, symlinks=True)
    for folder in ("converters", "schema", "proto"):  # a checkout without symbolic links has files there
        (root / "ktrace" / folder).unlink()
        (root / "ktrace" / folder).symlink_to(f"../{folder}")
    (root / "tests/converters").mkdir()
    (root / "benchmarks").mkdir()
    for file in ("README.md", "benchmarks/README.md", "CONTRIBUTING.md", "setup.cfg", "ruff.toml", "samples/README.md"):
        shutil.copy(ROOT / file, root / file)
    for file in ("conftest.py", "golden.py", "test_contract.py", "test_docs.py", "test_architecture.py"):
        shutil.copy(ROOT / "tests" / file, root / "tests" / file)
    return root


@pytest.mark.parametrize("like", few(LIKES, 1))
def test_a_new_format_passes_the_contract_at_once(checkout: Path, like: str) -> None:
    done = run("-m", "ktrace", "new-format", NAME, "--like", like, folder=checkout, path=checkout)
    assert done.returncode == 0, done.stderr
    made = done.stdout.splitlines()
    assert {str(Path(path)) for path in made} >= {
        f"converters/{MODULE}.py",
        *(f"samples/{NAME}/first-run{LIKES[like].suffix}", f"tests/converters/test_{MODULE}.py"),
        *(f"docs/formats/{NAME}.md", f"tests/golden_rows/{NAME}.json"),
        *("converters/formats.py", "converters/listed.py"),
        *("docs/formats.md", "docs/README.md", "samples/README.md"),
    }
    assert "{{" not in "".join((checkout / path).read_text("utf-8") for path in made if path.endswith((".md", ".toml")))

    own = f"tests/converters/test_{MODULE}.py"
    files = ("tests/test_contract.py", own, "tests/test_docs.py", "tests/test_architecture.py")
    of_all = "declares or lists_every_format or index_of_the_docs or generated_pages or sample_has_a_row or no_probe"
    wanted = f"[{NAME} or formats/{NAME} or test_the_figures or format_imports or {of_all}"
    said = pytest_run(*files, "-k", wanted, folder=checkout, path=checkout)
    outcomes = said.split()[0]
    assert len(outcomes) > 12 and set(outcomes) == {"."}, said
    for command in (("check",), ("format", "--check")):
        places = (f"converters/{MODULE}.py", "converters/formats.py", own, "tests/test_contract.py")
        done = run("-m", "ruff", *command, *places, folder=checkout, path=checkout)
        assert done.returncode == 0, done.stdout + done.stderr

    described = ("tests/test_docs.py", "-vv", "-k", "waits_for_its_description")
    done = run("-m", "pytest", *described, folder=checkout, path=checkout)
    assert done.returncode == 1
    assert f"docs/formats/{NAME}.md" in done.stdout
    assert f"converters/{MODULE}.py" in done.stdout

    again = run("-m", "ktrace", "new-format", NAME, "--like", like, folder=checkout, path=checkout)
    assert again.returncode == 2
    assert f"there is a format '{NAME}' already" in again.stderr


@pytest.mark.parametrize("like", few(LIKES, 2))
def test_a_package_of_its_own_passes_its_tests_at_once(tmp_path: Path, like: str) -> None:
    package = tmp_path / "package"
    done = run("-m", "ktrace", "new-format", NAME, "--like", like, "--package", package, folder=tmp_path, path=tmp_path)
    assert done.returncode == 0, done.stderr
    # As `pip install -e .` lays it down, without a network.
    source = package / "src"
    about = source / f"ktrace_{MODULE}-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ktrace-{NAME}\nVersion: 0.1\n")
    pyproject = (package / "pyproject.toml").read_text("utf-8")
    entry = next(line for line in pyproject.splitlines() if line.startswith(f"{NAME} = "))
    (about / "entry_points.txt").write_text("[ktrace.formats]\n" + entry.replace('"', "") + "\n")
    assert "2 passed" in pytest_run("tests", folder=package, path=source)
    listed = run("-m", "ktrace", "formats", folder=package, path=source)
    assert NAME in listed.stdout
    assert listed.stderr == ""


@pytest.mark.parametrize("name", ["My-Tool", "9lives", "a_b", "class", "../x", "kineto", "nsys-stats"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    arguments = ("new-format", name, "--like", "csv", "--package", tmp_path / "out")
    done = run("-m", "ktrace", *arguments, folder=tmp_path, path=tmp_path)
    assert done.returncode == 2
    assert f"'{name}'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_outside_of_a_checkout_the_package_is_the_way(tmp_path: Path) -> None:
    done = run("-m", "ktrace", "new-format", NAME, "--like", "csv", folder=tmp_path, path=tmp_path)
    assert done.returncode == 2
    assert "isn't a checkout of ktrace" in done.stderr
    assert "--package DIR" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/README.md").write_text("mine")
    arguments = ("new-format", NAME, "--like", "csv", "--package", tmp_path / "out")
    done = run("-m", "ktrace", *arguments, folder=tmp_path, path=tmp_path)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["README.md"]
