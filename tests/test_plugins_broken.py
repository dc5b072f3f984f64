"""Broken packages of formats, installed: `info`, `convert` and `formats` go on and name each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_plugins import PACKAGE, install, ktrace

#: Name of the package -> its modules, and what is read about it. Those below LOADED are asked only about an input.
AT_LOAD = {
    "missing": (
        PACKAGE | {"__init__.py": "import nowhere_to_be_found\n"},
        "ModuleNotFoundError: No module named 'nowhere",
    ),
    "raising": (PACKAGE | {"__init__.py": "raise RuntimeError('not today')\n"}, "RuntimeError: not today"),
    "leaving": (PACKAGE | {"__init__.py": "raise SystemExit(0)\n"}, "SystemExit: 0"),
    "endless": (PACKAGE | {"__init__.py": "def f(): f()\nf()\n"}, "RecursionError"),
    "misspelt": (PACKAGE | {"__init__.py": "FORMAT = Format(\n"}, "SyntaxError"),
}
WHEN_ASKED = {
    "probing": (
        PACKAGE | {"probe.py": "def probe(sample):\n    raise ValueError('no digits')\n"},
        "ValueError: no digits",
    ),
    "quitter": (PACKAGE | {"probe.py": "def probe(sample):\n    raise SystemExit(0)\n"}, "SystemExit: 0"),
    "unread": (PACKAGE | {"probe.py": "import nowhere_to_be_found\n"}, "nowhere_to_be_found"),
}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A folder with a package that works and all the broken ones, and a file for the one that works."""
    site = install(tmp_path / "site", PACKAGE)
    for name, (modules, _) in (AT_LOAD | WHEN_ASKED).items():
        install(site, modules, name=name)
    (tmp_path / "run.log").write_text("BEEP gemm 100 20\n")
    return site


@pytest.mark.parametrize("command", ["formats", "info", "convert"])
def test_every_broken_package_is_named_and_stops_nothing(broken: Path, tmp_path: Path, command: str) -> None:
    log, out, account = tmp_path / "run.log", tmp_path / "run.jsonl", tmp_path / "account.json"
    arguments = {"formats": [], "info": [log], "convert": [log, "-o", out, "--report", account]}[command]
    done = ktrace(broken, command, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    said = done.stderr + (account.read_text() if command == "convert" else "")
    for name, (_, words) in (AT_LOAD if command == "formats" else AT_LOAD | WHEN_ASKED).items():
        assert name in said, name
        assert words in said, name
    if command == "convert":
        assert '"gemm"' in out.read_text()
    else:
        assert ("beeper" if command == "formats" else "gemm") in done.stdout


@pytest.mark.parametrize(
    "fault", ["raise ValueError('no digits')", "raise SystemExit(0)", "import nowhere_to_be_found"]
)
def test_a_reader_that_fails_is_named_and_the_exit_code_tells(tmp_path: Path, fault: str) -> None:
    site = install(
        tmp_path / "site", PACKAGE | {"reader.py": f"def read(source, conversion):\n    {fault}\n    yield\n"}
    )
    log, out = tmp_path / "run.log", tmp_path / "run.jsonl"
    log.write_text("BEEP gemm 100 20\n")
    for command in (["info", log], ["convert", log, "-o", out]):
        done = ktrace(site, *command)
        assert done.returncode == 1, done.stdout
        assert "beeper" in done.stderr
        assert "Traceback" not in done.stderr
    assert not out.exists()
