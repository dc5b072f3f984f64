"""The line of a page that says what it is of, and the figures of its verdict."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime, timezone
from html import unescape
from pathlib import Path

import pytest
from conftest import SAMPLES
from fork_server import program

import ktrace
from ktrace.page.page import with_bold_figures
from ktrace.page.render import rendered

KINETO = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def origin(page: str) -> list[str]:
    line = re.search(r'<p class="origin">(.*?)</p>', page, re.DOTALL)
    return [unescape(part) for part in re.findall(r"<(?:span|code)>(.*?)</", line[1] if line else "")]


def test_the_line_names_device_file_size_date_and_command(tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    shutil.copy(KINETO, tmp_path / "a b.pt.trace.json")
    subprocess.run([program(), "summary", "a b.pt.trace.json", "-o", "x.html"], cwd=tmp_path, check=True)
    source = json.loads(KINETO.read_text("utf-8"))
    first = min(event["ts"] for event in source["traceEvents"] if event.get("ph") == "X")
    begin = datetime.fromtimestamp(int(first / 1e6 + source.get("baseTimeNanoseconds", 0) / 1e9), timezone.utc)
    assert origin(out.read_text("utf-8")) == [
        source["deviceProperties"][0]["name"],
        f"a b.pt.trace.json, {KINETO.stat().st_size / 1e3:.1f} kB",
        f"recorded {begin:%Y-%m-%d %H:%M} UTC",
        "ktrace summary 'a b.pt.trace.json' -o x.html",
    ]


def test_a_page_of_a_program_has_no_command_and_a_table_no_time_of_recording(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    table.write_text("| kernel | total ms |\n|---|---|\n| gemm | 12.5 |\n| copy | 1.5 |\n")
    summary = ktrace.summary(str(table))
    page = rendered(summary.tables(), "html", title="table", subject=summary)
    parts = origin(page)
    assert [part for part in parts if part.startswith("file of 20")]
    assert not [part for part in parts if part.startswith(("recorded", "ktrace "))]


@pytest.mark.parametrize(
    ("sentence", "bold"),
    [
        ("Device 0 is busy for 86.4% of its 962 us, and idle for 1,131 us.", ["86.4%", "962 us", "1,131 us"]),
        ("sm90_16 s128 on stream 7 takes x12 ms", []),
        ("1 of 8 ranks is here", []),
        ("it moves 4.5 GB at 2 TB/s, +27.3%", ["4.5 GB", "2 TB/s", "+27.3%"]),
        ("<b>5%</b> & more", ["5%"]),
    ],
)
def test_figures_with_units_are_bold(sentence: str, bold: list[str]) -> None:
    marked = with_bold_figures(sentence)
    assert re.findall("<b>(.*?)</b>", marked) == bold
    assert unescape(re.sub("</?b>", "", marked)) == sentence
