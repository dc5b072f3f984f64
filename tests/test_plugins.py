"""Formats of other packages: found by the entry point group `ktrace.formats`, used like ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
from ktrace.model.row_builder import Rows


def read(source, conversion):
    rows = Rows(conversion)
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


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that offers a format, as pip would lay it down."""
    site = tmp_path / "site"
    for name, text in ROOM.items():
        path = site / "beeper_ktrace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    about = site / "beeper_ktrace-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: beeper-ktrace\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ktrace.formats]\nbeeper = beeper_ktrace:FORMAT\n")
    return site


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
