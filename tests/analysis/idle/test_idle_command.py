"""`ktrace summary --by idle` as users meet it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from click.testing import CliRunner, Result
from conftest import SAMPLES
from idle_traces import host, work, written

from ktrace.cli import cli

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["summary", *map(str, arguments)], prog_name="ktrace")


def section(text: str, title: str) -> list[str]:
    lines = text.splitlines()
    return lines[lines.index(title) + 1 :]


def test_the_tables_of_one_device() -> None:
    done = run(STEP, "--by", "idle", "--top", "2")
    assert done.exit_code == 0, done.output
    causes = section(done.stdout, "why device 0 is idle")
    assert causes[0].split() == ["cause", "time", "of", "idle", "of", "span", "gaps", "average", "longest"]
    assert causes[1].split() == ["launch-bound", "116.626", "us", "89.0%", "12.1%", "4", "29.157", "us", "34.904", "us"]
    assert causes[2].split() == [
        "launch",
        "latency",
        "14.379",
        "us",
        "11.0%",
        "1.5%",
        "9",
        "1.598",
        "us",
        "2.400",
        "us",
    ]
    host_rows = section(done.stdout, "CPU activity during gaps")
    assert host_rows[1].split()[1:4] == ["aten::addmm", "16.882", "us"]
    assert host_rows[3] == "... and 11 more"
    assert max(map(len, causes)) < 80


def test_figures_for_programs() -> None:
    found = json.loads(run(STEP, "--by", "idle", "--format", "json").stdout)["tables"]
    late, overhead = found["idle"]
    assert (late["device"], late["cause"], late["time_ns"], late["gaps"]) == ("device 0", "host late", 116_626, 4)
    assert overhead["longest_ns"] == 2_400
    assert sum(row["time_ns"] for row in found["idle_host"]) == 116_626
    rows = list(csv.DictReader(io.StringIO(run(STEP, "--by", "idle", "--format", "csv").stdout)))
    assert [row["time_ns"] for row in rows] == ["116626", "14379"] and "table" not in rows[0]
    rows = list(
        csv.DictReader(io.StringIO(run(STEP, "--by", "idle", "--format", "csv", "--tables", "idle_host").stdout))
    )
    assert sum(int(row["time_ns"]) for row in rows) == 116_626


def test_launches_that_are_not_known(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", [work("a", 0, 1_000), work("b", 3_000, 4_000)])
    done = run(path, "--by", "idle")
    assert section(done.stdout, "why device 0 is idle")[1:] == [
        "unknown  2.000 us   100.0%    50.0%     1  2.000 us  2.000 us",
        "A cause is unknown where the work after the gap has no known call, or nothing says why it began late.",
    ]


def test_a_device_that_is_never_idle(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", [work("a", 0, 1_000), work("b", 1_000, 4_000)])
    assert "No device is idle between its first and its last work." in run(path, "--by", "idle").stdout


def test_without_device_work_nothing_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", [host("main", 0, 1_000, kind="range")])
    done = run(path, "--by", "idle")
    assert done.exit_code == 0
    assert "This input has no idle information." in done.stdout and "why" not in done.stdout
