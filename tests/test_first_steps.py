"""What a person meets who doesn't know the commands yet: hints, the line to type, how to go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES

from ktrace.cli import cli
from ktrace.pipeline.info import inspect
from ktrace.tables import brief, duration

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
NSYS = SAMPLES / "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"
NCU = SAMPLES / "ncu/details-with-rules-two-processes-amid-output.csv"
DOPPLER = SAMPLES / "doppler/prefill-and-three-decodes.log"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], prog_name="ktrace")


def test_the_command_alone_shows_its_help() -> None:
    done = run()
    assert done.exit_code == 0
    assert done.stdout == run("--help").stdout and "Commands:" in done.stdout


@pytest.mark.parametrize(
    ("word", "meant"),
    [("open", "view"), ("top", "summary"), ("stats", "summary"), ("compare", "diff"), ("export", "convert")],
)
def test_words_of_other_tools_name_the_command(word: str, meant: str) -> None:
    done = run(word, "x.json")
    assert done.exit_code == 2 and f"did you mean {meant}?" in done.stderr


def test_an_unknown_group_is_told_what_was_meant() -> None:
    error = run("summary", STEP, "--by", "kernels").exception
    assert "did you mean kernel?" in str(error)
    assert "did you mean" not in str(run("summary", STEP, "--by", "qqqq").exception)


@pytest.mark.parametrize("command", ["convert", "merge"])
def test_without_an_output_the_line_to_type_is_named(command: str) -> None:
    done = run(command, STEP)
    assert f"ktrace {command} {STEP} -o one-step-of-training.perfetto" in str(done.exception)


def test_a_conversion_ends_with_what_was_written_and_how_to_open_it(tmp_path: Path) -> None:
    out = tmp_path / "step.perfetto"
    last = run("convert", STEP, "-o", out).stderr.splitlines()[-1]
    size = f"{out.stat().st_size / 1000:.1f} kB"
    assert last == f"{out}, {size}: 65 events (16 launches joined to the work). Open it: ktrace view {out}"
    table = run("convert", STEP, "-o", tmp_path / "step.csv").stderr.splitlines()[-1]
    assert table.endswith(": 75 rows")
    assert run("convert", STEP, "-o", "-", "--to", "csv").stderr.splitlines()[-1].startswith("-: read ")


def test_metrics_among_the_inputs_are_asked_about(tmp_path: Path) -> None:
    for command in ("convert", "merge"):
        said = run(command, NSYS, NCU, "-o", tmp_path / "o.perfetto", "--overwrite").stderr
        assert f"did you mean --metrics? Kernels get their metrics by ktrace convert {NSYS} --metrics {NCU}" in said
    out = tmp_path / "o.perfetto"
    assert "--metrics" not in run("merge", NSYS, STEP, "-o", out, "--overwrite").stderr
    assert "did you mean" not in run("convert", NSYS, "--metrics", NCU, "-o", out, "--overwrite").stderr


def test_formats_are_searched() -> None:
    lines = run("formats", "nsys", "sqlite").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["format", "nsys"]
    assert "*.sqlite" in lines[1]
    none = run("formats", "nsyz")
    assert not none.stdout and "did you mean nsys" in none.stderr
    assert max(map(len, run("formats").stdout.splitlines())) < 260


def test_info_shows_figures_that_the_log_states_and_sizes_with_units() -> None:
    text = run("info", DOPPLER).stdout
    assert re.search(r"^TTFT +76\.000 ms$", text, re.M)
    assert "memory 85.0 GB" in run("info", STEP).stdout
    assert "stated by the source" not in run("info", STEP).stdout
    assert not inspect(STEP).stated


def test_long_spans_are_days() -> None:
    assert duration(3 * 86_400 * 10**9) == "3.000 days" and brief(36 * 3_600 * 10**9) == "1.50 days"
    assert duration(7_200 * 10**9) == "2.000 h" and duration(3_599 * 10**9) == "3,599.000 s"
