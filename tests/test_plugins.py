"""Formats of other packages: found by the entry point group `ktrace.formats`, used like ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace.converters.kineto.probe as ktrace_kineto_probe
from ktrace import __version__
from ktrace.errors import StrictFailure
from ktrace.input.detection import detect
from ktrace.pipeline.convert import convert

ROOM = {
    "__init__.py": """
from ktrace import Format

FORMAT = Format("beeper", "Beeper log", "beeper_ktrace", ("*.beep",), reads=True)
""",
    "probe.py": """
from ktrace.input.format import Match, Score


def probe(sample):
    return Match(Score.DIALECT, "begins with BEEP") if sample.head.startswith(b"BEEP") else None
""",
    "reader.py": """
from ktrace.model.row_builder import RowBuilder


def read(source, conversion):
    rows = RowBuilder(conversion)
    with source.open() as stream:
        for line in stream:
            conversion.report.record()
            name, ts, dur = line.split()[1:]
            rows.event("kernel", name.decode(), ts=int(ts), dur=int(dur), x_beeps=3)
            conversion.report.used()
            yield from rows.ready()
    yield from rows.rest()
""",
}


def install(site: Path, modules: dict[str, str], *, name: str = "beeper", value: str = "") -> Path:
    """A package `<name>_ktrace` with an entry point, laid in the folder as pip lays it."""
    for module, text in modules.items():
        path = site / f"{name}_ktrace" / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("beeper", name))
    about = site / f"{name}_ktrace-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-ktrace\nVersion: 1.0\n")
    entry = value or f"{name}_ktrace:FORMAT"
    (about / "entry_points.txt").write_text(f"[ktrace.formats]\n{name} = {entry}\n")
    return site


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that offers a format, as pip would lay it down."""
    return install(tmp_path / "site", ROOM)


def ktrace(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "ktrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_format_of_another_package_is_listed_found_and_read(installed: Path, tmp_path: Path) -> None:
    assert "beeper" in ktrace(installed, "formats").stdout
    log, out = tmp_path / "run.log", tmp_path / "run.jsonl"
    log.write_text("BEEP gemm 100 20\nBEEP norm 130 5\n")
    done = ktrace(installed, "convert", log, "-o", out)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    events = [(row["name"], row["ts"], row["dur"], row["x_beeps"]) for row in rows if row["record"] == "event"]
    assert events == [("gemm", 100, 20, 3), ("norm", 130, 5, 3)]
    assert ktrace(installed, "validate", out).returncode == 0
    assert ktrace(installed, "convert", log, "-o", tmp_path / "run.perfetto", "--from", "beeper").returncode == 0


RAISING = """
def probe(sample):
    raise ValueError("no digits here")
"""

#: What is broken -> the modules of the package, its entry point, what a user reads about it.
BROKEN = {
    "import error at load": (
        ROOM | {"__init__.py": "import nowhere_to_be_found\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    ),
    "error of another kind at load": (
        ROOM | {"__init__.py": "1 / 0\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: ZeroDivisionError: division by zero",
    ),
    "no such object": (ROOM, "broken_ktrace:NOTHING", "can't be loaded from broken-ktrace 1.0: AttributeError"),
    "not a format": (
        ROOM | {"__init__.py": "FORMAT = {'name': 'broken'}\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: TypeError: it is a dict, not a ktrace.Format",
    ),
    "no such room": (
        ROOM | {"__init__.py": ROOM["__init__.py"].replace('"beeper_ktrace"', '"broken_elsewhere.room"')},
        "",
        "can't be loaded from broken-ktrace 1.0: ModuleNotFoundError: No module named 'broken_elsewhere'",
    ),
    "no reader": (
        {name: text for name, text in ROOM.items() if name != "reader.py"},
        "",
        "can't be loaded from broken-ktrace 1.0: ImportError: the package broken_ktrace has no module 'reader'",
    ),
    "no probe": (
        {name: text for name, text in ROOM.items() if name != "probe.py"},
        "",
        "can't be loaded from broken-ktrace 1.0: ImportError: the package broken_ktrace has no module 'probe'",
    ),
    "the name of another format": (
        ROOM | {"__init__.py": ROOM["__init__.py"].replace('Format("beeper"', 'Format("doppler"')},
        "",
        "can't be loaded from broken-ktrace 1.0: ValueError: the name doppler belongs to another format",
    ),
    "the probe raises": (
        ROOM | {"probe.py": RAISING},
        "",
        "its probe, of broken-ktrace 1.0, raised ValueError: no digits",
    ),
    "the probe can't be imported": (
        ROOM | {"probe.py": "import nowhere_to_be_found\n"},
        "",
        "of broken-ktrace 1.0, raised KtraceError: the module broken_ktrace.probe of the format broken can't",
    ),
    "the probe returns something else": (
        ROOM | {"probe.py": "def probe(sample):\n    return True\n"},
        "",
        "its probe, of broken-ktrace 1.0, raised TypeError: the probe returned a bool, not a Match or None",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_package_is_named_and_the_others_go_on(installed: Path, tmp_path: Path, fault: str) -> None:
    modules, value, words = BROKEN[fault]
    install(installed, modules, name="broken", value=value)
    log, out, account = tmp_path / "run.log", tmp_path / "run.jsonl", tmp_path / "account.json"
    log.write_text("BEEP gemm 100 20\n")
    done = ktrace(installed, "convert", log, "-o", out, "--report", account)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "broken-format (broken)" in warning
    assert words in warning
    assert '"gemm"' in out.read_text()
    [issue] = [issue for issue in json.loads(account.read_text())["issues"] if issue["kind"] == "broken-format"]
    assert issue["places"][0]["where"] == "broken"
    assert words in issue["places"][0]["detail"]

    info = ktrace(installed, "info", log)
    assert info.returncode == 0, info.stderr
    assert words in info.stderr
    strict = ktrace(installed, "convert", log, "-o", tmp_path / "strict.jsonl", "--strict")
    assert strict.returncode == 1
    assert words in strict.stderr
    assert "--from" in strict.stderr
    named = ktrace(installed, "convert", log, "-o", tmp_path / "strict.jsonl", "--strict", "--from", "beeper")
    assert named.returncode == 0, named.stderr
    assert "warning" not in named.stderr


@pytest.mark.parametrize("fault", ["import error at load", "the probe raises"])
def test_an_unknown_input_names_the_format_that_failed(installed: Path, tmp_path: Path, fault: str) -> None:
    modules, value, words = BROKEN[fault]
    install(installed, modules, name="broken", value=value)
    (tmp_path / "run.log").write_text("what is this\n")
    done = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert "no format knows this input; the format broken couldn't be asked: its p" in done.stderr
    assert words in done.stderr


def test_formats_that_cannot_be_loaded_are_left_out_of_the_list_with_a_warning(installed: Path, tmp_path: Path) -> None:
    modules, value, words = BROKEN["not a format"]
    install(installed, modules, name="broken", value=value)
    done = ktrace(installed, "formats")
    assert done.returncode == 0
    assert "beeper" in done.stdout
    assert "broken" not in done.stdout
    assert done.stderr.startswith("warning: the format broken was left out: ")
    assert words in done.stderr
    (tmp_path / "run.log").write_text("BEEP gemm 100 20\n")
    named = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.csv", "--from", "broken")
    assert named.returncode == 2
    assert words in named.stderr


def test_a_reader_that_cannot_be_imported_is_named_with_its_package(installed: Path, tmp_path: Path) -> None:
    (installed / "beeper_ktrace/reader.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "run.log").write_text("BEEP gemm 100 20\n")
    done = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.csv")
    assert done.returncode == 1
    assert "beeper_ktrace.reader of the format beeper can't be imported: ModuleNotFoundError" in done.stderr
    assert "update or uninstall beeper-ktrace 1.0" in done.stderr
    assert "fault of ktrace" not in done.stderr


def test_a_probe_of_ours_that_raises_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SAMPLES / "doppler/prefill-and-three-decodes.log"

    def probe(sample: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(ktrace_kineto_probe, "probe", probe)
    report = convert(log, tmp_path / "out.jsonl")
    assert report.inputs[0]["format"] == "doppler"
    [(where, detail)] = report.issues["broken-format"].places
    assert where == "kineto"
    assert detail == f"its probe, of ktrace {__version__}, raised IndexError: list index out of range"
    assert report.balanced()
    assert [match.format for match in detect(log) if match.failed] == ["kineto"]
    with pytest.raises(StrictFailure, match="the format kineto couldn't be asked"):
        convert(log, tmp_path / "strict.jsonl", strict=True)
    report = convert(log, tmp_path / "folder.jsonl", strict=True, from_="doppler")
    assert "broken-format" not in report.issues
