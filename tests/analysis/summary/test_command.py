"""`ktrace summary` as users meet it: what it prints and writes, in which format, and how it fails."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, SAMPLES
from fork_server import program

from ktrace.analysis.answers.summary.compute import summarise
from ktrace.cli import cli

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
ROCM = SAMPLES / "rocpd/tracks-and-a-table-more-schema-4.db"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["summary", *map(str, arguments)], prog_name="ktrace")


def ktrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command as a program, for its exit code."""
    command = [program(), "summary", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "120"})


def test_what_it_shows_first() -> None:
    done = run(STEP, "--full")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:3] == summarise(STEP).verdict and lines[3].startswith("Try: Overlap it with compute")
    assert lines[4].startswith("1 of 8 ranks is here") and not lines[5]
    lines = lines[6:]
    assert lines[1] == "one-step-of-training.pt.trace  device activities    15  930.070 us  1.005 ms"
    assert lines[3] == "utilisation of device 0, NVIDIA H100 80GB HBM3"
    figures = {line[:22].strip(): line[22:].split() for line in lines[5:16]}
    assert figures["busy"] == ["831.016", "us", "86.4%"]
    assert figures["exposed communication"] == ["116.752", "us", "12.1%"]
    assert figures["occupancy"] == ["27.7%"]
    titles = [line for line in lines if line.startswith("by ")]
    assert titles == ["by operation", "by kernel"]
    kernels = lines[lines.index("by kernel") + 2 :]
    assert len(kernels) == 11 and kernels[-1] == "... and 3 more"
    assert kernels[0].startswith("ncclDevKernel_AllReduce_Sum_bf16_RING_LL ")
    assert "15.486 us" in next(line for line in lines if line.startswith("queueing"))


def test_by_top_and_csv() -> None:
    done = run(STEP, "--by", "library,kernel", "--top", "2", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len([row for row in rows if row["table"] == "library"]) == 2
    kernels = [row for row in rows if row["table"] == "kernel"]
    assert [int(row["time_ns"]) for row in kernels] == [215806, 141247]
    assert kernels[0]["name"].startswith("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(")
    assert float(kernels[0]["share_percent"]) == pytest.approx(100 * 215806 / 930070)


def test_json_has_exact_figures() -> None:
    document = json.loads(run(STEP, "--format", "json", "--by", "operation,step").stdout)
    [device] = document["tables"]["devices"]
    assert (device["busy_ns"], device["idle_ns"], device["span_ns"]) == (831016, 131005, 962021)
    [step] = document["tables"]["steps"]
    assert step["step"] == "ProfilerStep#3" and step["operation_gemm_ns"] == 249629
    assert sum(row["time_ns"] for row in document["tables"]["operation"]) == 930070


def test_an_output_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    for name in ("o.html", "o.md", "o.csv", "o.json", "o.txt"):
        suffix = name.partition(".")[2]
        done = run(STEP, "-o", tmp_path / name)
        assert done.exit_code == 0 and done.stdout == "", done.output
        text = (tmp_path / name).read_text("utf-8")
        assert "AllReduce" in text
        assert text.startswith(
            {"html": "<!doctype html>", "json": "{", "csv": "table,"}.get(suffix, "gemm takes the most device time")
        )
    again = ktrace(STEP, "-o", tmp_path / "o.txt")
    assert again.returncode == 1 and "already exists" in again.stderr
    assert ktrace(STEP, "-o", tmp_path / "o.txt", "--overwrite").returncode == 0
    missing = ktrace(tmp_path / "none.json", "-o", tmp_path / "new.txt")
    assert missing.returncode == 1 and "Traceback" not in missing.stderr
    assert not (tmp_path / "new.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"o.html", "o.md", "o.csv", "o.json", "o.txt"}


def test_a_part_of_the_trace() -> None:
    done = run(STEP, "--name", "*AllReduce*", "--format", "json", "--by", "kernel")
    assert [row["time_ns"] for row in json.loads(done.stdout)["tables"]["kernel"]] == [215806]
    device = json.loads(run(STEP, "--time", "..500us", "--format", "json").stdout)["tables"]["devices"][0]
    assert device["busy_ns"] < 831016


def test_wrong_usage() -> None:
    wrong = ktrace(STEP, "--by", "colour")
    assert wrong.returncode == 2 and "kernel, operation" in wrong.stderr
    assert ktrace(STEP, "--format", "xls").returncode == 2
    assert ktrace(STEP, "--top", "0").returncode == 2
    assert ktrace().returncode == 2


def test_unclassified(tmp_path: Path) -> None:
    none = run(STEP, "--unclassified")
    assert none.exit_code == 0
    assert "0.0% of the time has no operation." in none.stdout
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"name": "AllReduce", "operation": null}]}')
    done = run(STEP, "--unclassified", "--rules", rules)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert "use of" not in done.stdout and "kernels without an operation" in lines
    assert lines[lines.index("kernels without an operation") + 2].startswith(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL("
    )
    both = run(STEP, "--unclassified", "--by", "library", "--rules", rules).stdout
    assert "by library" in both and "kernels without an operation" in both
    assert lines[-1] == "23.2% of the time has no operation; add your own rules to label it."


def test_what_was_skipped_is_told_beside_the_output() -> None:
    done = run(SAMPLES / "rpd/two-calls-a-kernel-never-run-and-nulls.rpd", "--format", "csv")
    assert done.exit_code == 0
    assert "skip: 1 x not-executed" in done.stderr and "skip" not in done.stdout


def test_several_inputs() -> None:
    done = run(STEP, ROCM, "--by", "source,device", "--format", "json")
    tables = json.loads(done.stdout)["tables"]
    assert [row["source"] for row in tables["source"]] == ["one-step-of-training.pt.trace", ROCM.stem]
    assert len(tables["devices"]) == 2
    assert "span_ns" not in tables["overview"][0]  # their clocks may differ
    text = run(STEP, ROCM, "--full").stdout
    assert text.count("\nutilisation of ") == 2


def test_the_page_shows_what_the_command_prints() -> None:
    page = (ROOT / "docs/commands/summary.md").read_text("utf-8")
    shown = page.partition("$ ktrace summary samples/kineto/one-step-of-training.pt.trace.json\n")[2].partition("```")[
        0
    ]
    assert run(STEP).stdout == shown


def test_the_python_of_the_page_runs() -> None:
    page = (ROOT / "docs/commands/summary.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0].replace("samples/", f"{SAMPLES}/")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["116752", "gemm 249629 62287.5 [249629.]"]
