"""Modules that lie beside the traces are data: no command runs them, nor does a Python that a command starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, SAMPLES
from nightly import few

#: Modules that Python or a command imports at its start or later: of the standard library, of others, ours.
PLANTED = (
    *("multiprocessing", "__future__", "typing", "json", "pickle", "queue", "threading", "signal", "gc", "tempfile"),
    *("sqlite3", "zipfile", "bdb", "readline", "sitecustomize", "usercustomize", "numpy", "pyarrow", "pandas", "click"),
    *("msgspec", "isal", "google", "jinja2", "duckdb", "ktrace_converters", "fork", "workers", "worker", "threads"),
)

#: What `python -m` itself imports before any line of ktrace: nothing but -P or -I keeps Python from the current folder.
BEFORE = ("ktrace", "runpy", "pkgutil", "importlib", "types", "contextlib")

_CODE = 'open({seen!r}, "a").write(__name__ + "\\n")\n'

#: What each command is asked; `traces` are two inputs in the current folder.
COMMANDS = {
    "batch": ["rank*.json", "-o", "out", "--jobs", "2"],
    "convert": ["rank0.json", "-o", "one.perfetto", "--jobs", "2"],
    "summary": ["rank0.json"],
    "view": ["rank0.json", "-o", "page.html"],
    "query": ["rank0.json", "select count(*) from events"],
    "mcp": [],
    "merge": ["rank0.json", "rank1.json", "-o", "both.perfetto"],
    "diff": ["rank0.json", "rank1.json"],
    "info": ["rank0.json"],
    "map": ["table.csv"],
    "formats": [],
    "validate": ["none.jsonl"],
    "schema": [],
    "completion": ["bash"],
    "new-format": ["my-tool", "--like", "csv", "--package", "package"],
    "check-format": ["kineto", "rank0.json"],
    "cache": [],
}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with traces and planted modules."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in (0, 1):
        (source,) = SAMPLES.glob(f"kineto/collectives-of-two-ranks-rank{rank}*")
        shutil.copy(source, folder / f"rank{rank}.json")
    (folder / "table.csv").write_text("what,when,took\na,1,2\n", "utf-8")
    for name in PLANTED:
        plant(folder, name)
    return folder


def plant(folder: Path, name: str) -> None:
    """Lays a module that leaves a note where it is run: as a file for some, as a package for others."""
    code = _CODE.format(seen=str(folder / "RAN"))
    (folder / f"{name}.py").write_text(code, "utf-8")
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code, "utf-8")
    (folder / name / "__main__.py").write_text(code, "utf-8")


def run(folder: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    plain |= {"KTRACE_CACHE": str(folder.parent / "cache")} | environment
    return subprocess.run(
        command, cwd=folder, env=plain, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def ran(folder: Path) -> list[str]:
    """The planted modules that were run."""
    seen = folder / "RAN"
    return sorted(set(seen.read_text().split())) if seen.exists() else []


@pytest.mark.parametrize("name", few(COMMANDS, 5))
def test_no_command_runs_what_lies_beside_the_traces(traces: Path, name: str) -> None:
    for module in BEFORE:
        plant(traces, module)
    done = run(traces, [str(Path(sys.executable).with_name("ktrace")), name, *COMMANDS[name]])
    assert ran(traces) == []
    assert done.returncode == (1 if name == "validate" else 0), done.stderr
    if name == "batch":
        assert "2 done" in done.stderr


@pytest.mark.parametrize("name", few(COMMANDS, 1))
def test_nor_does_python_m_ktrace_after_its_own_start(traces: Path, name: str) -> None:
    done = run(traces, [sys.executable, "-m", "ktrace", name, *COMMANDS[name]])
    assert ran(traces) == []
    assert done.returncode == (1 if name == "validate" else 0), done.stderr


def test_what_python_imports_before_ktrace_is_kept_out_by_its_own_option(traces: Path) -> None:
    for module in BEFORE:
        plant(traces, module)
    for flag in ("-I", "-P") if sys.version_info >= (3, 11) else ("-I",):
        done = run(traces, [sys.executable, flag, "-m", "ktrace", "batch", "rank*.json", "-o", f"out{flag}"])
        assert ran(traces) == [], flag
        assert "2 done" in done.stderr, done.stderr


def test_a_library_call_of_a_program_started_there_runs_nothing_in_its_workers(traces: Path) -> None:
    """A notebook has '' on its path, and has imported what it needs; its workers look nowhere but where ktrace is."""
    code = (
        "import sys; path, sys.path[:] = [*sys.path], [one for one in sys.path if one]\n"
        "import ktrace, ktrace.fleet.batch, ktrace.fleet.executor\n"
        "sys.path[:] = path\n"
        "assert sys.path[0] == ''\n"
        "import sys; print(len(ktrace.batch('rank*.json', 'out', jobs=2).done))\n"
    )
    done = run(traces, [sys.executable, "-c", code])
    assert ran(traces) == []
    assert done.stdout == "2\n", done.stderr


def test_a_checkout_in_the_current_folder_is_found_by_its_workers(tmp_path: Path) -> None:
    """Where '' on the path is what has ktrace, the workers get its folder."""
    source = SAMPLES / "doppler/prefill-and-three-decodes.log"
    code = (
        "import sys; sys.path[:] = ['', *(one for one in sys.path if one and not one.startswith(sys.argv[1]))]\n"
        "import ktrace; print(len(ktrace.batch(sys.argv[2], sys.argv[3], jobs=1).done))\n"
    )
    done = run(ROOT, [sys.executable, "-c", code, str(ROOT / "none"), str(source), str(tmp_path / "out")])
    assert done.stdout == "1\n", done.stderr


def test_what_is_installed_for_others_starts_python_isolated() -> None:
    """The action runs in the checkout of a pull request, the hook in that of a user."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    lines = [line for step in action["runs"]["steps"] for line in step.get("run", "").splitlines()]
    started = [line for line in lines if "python" in line]
    assert started
    assert all(line.split("python", 1)[1].startswith(" -I ") for line in started)
    assert all(hook["entry"].startswith("ktrace ") for hook in hooks)
