"""`ktrace summary --by op,module,range,api` and `--tree` as users meet them."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES

from ktrace.cli import cli
from ktrace.errors import UsageError

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
GRAPH = SAMPLES / "kineto/base-after-the-events-graph-of-three-kernels.pt.trace.json"


def run(*arguments: object, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["summary", *map(str, arguments)], prog_name="ktrace")


def table(text: str, title: str) -> list[str]:
    """The lines of the table with this title."""
    lines = text.splitlines()
    first = lines.index(title)
    return lines[first : lines.index("", first) if "" in lines[first:] else None]


def test_by_op_and_range() -> None:
    done = run(STEP, "--by", "op,range", "--top", "2")
    assert done.exit_code == 0, done.output
    assert [line.split() for line in table(done.stdout, "device time by operator")[1:]] == [
        ["operator", "self", "share", "total", "launched", "calls", "host", "time"],
        ["record_param_comms", "215.806", "us", "23.2%", "215.806", "us", "2", "2", "58.000", "us"],
        ["aten::_fused_adamw_", "141.247", "us", "15.2%", "141.247", "us", "1", "1", "60.000", "us"],
        ["...", "and", "20", "more"],
    ]
    assert table(done.stdout, "device time by range")[2].split()[:4] == ["ProfilerStep#3", "930.070", "us", "100.0%"]


def test_the_tree_in_every_format() -> None:
    text = run(STEP, "--by", "range,op", "--tree", "--top", "4")
    assert text.exit_code == 0, text.output
    lines = table(text.stdout, "device time in the call tree")
    assert [line.split("  ")[0] or line[: len(line) - len(line.lstrip())] for line in lines[2:6]] == [
        "ProfilerStep#3",
        "  ",
        "    ",
        "      ",
    ]
    assert lines[3].startswith("  loss.backward()  ") and lines[5].startswith("      nccl:all_reduce  ")
    rows = json.loads(run(STEP, "--by", "range,op", "--tree", "--format", "json").stdout)["tables"]["tree"]
    assert rows[3]["path"] == "ProfilerStep#3 › loss.backward() › record_param_comms › nccl:all_reduce"
    assert (rows[3]["depth"], rows[3]["level"], rows[3]["own_time_ns"]) == (3, "range", 215806)
    assert sum(row["own_time_ns"] for row in rows) == 930070
    written = run(STEP, "--by", "range,op", "--tree", "--format", "csv").stdout
    found = [row for row in csv.DictReader(io.StringIO(written)) if row["table"] == "tree"]
    assert [int(row["total_time_ns"]) for row in found] == [row["total_time_ns"] for row in rows]
    markdown = run(STEP, "--by", "range,op", "--tree", "--format", "md").stdout
    assert "| &nbsp;&nbsp;loss.backward() | 523.706 us |" in markdown


@pytest.mark.parametrize("arguments", [["--tree"], ["--tree", "--by", "kernel,layer"]])
def test_a_tree_of_nothing(arguments: list[str]) -> None:
    done = run(STEP, *arguments)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).splitlines() == [
        "a call tree needs something that nests",
        "  expected: op, module or range, such as --by range,op",
    ]


def test_other_tables_next_to_a_tree() -> None:
    done = run(STEP, "--by", "op,operation,api", "--tree", "--format", "json")
    assert {"tree", "operation", "api"} <= json.loads(done.stdout)["tables"].keys()
    assert "op" not in json.loads(done.stdout)["tables"]


def test_calls_have_headings_of_their_own() -> None:
    done = run(GRAPH, "--by", "api", columns=160)
    lines = [line.split() for line in table(done.stdout, "API calls on the host")[1:3]]
    assert " ".join(lines[0]) == "call time share calls average median p95 max launched device time"
    assert lines[1][:5] == ["cudaGraphLaunch", "20.000", "us", "76.9%", "1"]
    assert lines[1][-3:] == ["3", "24.750", "us"]


def test_what_the_trace_does_not_know() -> None:
    done = run(SAMPLES / "mlc/two-dialects-and-a-peak-that-disagrees.md", "--by", "op,api,kernel")
    assert done.exit_code == 0
    assert "This input has no op or api information." in done.stdout
    done = run(GRAPH, "--by", "op")
    assert "The call that launched 2 of 6 device activities (6.000 us) isn't known." in done.stdout
