"""A filter that nothing passes is an error that names what there is, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from canonical_rows import GPU, event
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.cli import cli
from ktrace.naming.alike import near

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

CASES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "name": (["--name", "*sofmax*"], ("no name matches '*sofmax*'", "aten::log_softmax")),
    "kind": (["--kind", "alloc"], ("there is no row of kind alloc", "kernel")),
    "device": (["--device", "4"], ("no row is on device 4", "devices 0")),
    "stream": (["--stream", "99"], ("no row is on stream 99", "streams 7, 20")),
    "rank": (["--rank", "8"], ("there is no rank 8", "ranks 0")),
    "range": (["--range", "los.bakward()"], ("no range is called", "loss.backward()")),
    "around": (["--around", "*sofmax*"], ("no event is called", "aten::log_softmax")),
    "named step": (["--step", "ProfilerStep#9"], ("there is no step ProfilerStep#9", "steps ProfilerStep#3")),
    "step of another name": (["--step", "Iteration 3"], ("there is no step Iteration 3", "steps ProfilerStep#3")),
    "step": (["--step", "9"], ("there is no step 9", "steps 3")),
    "long": (["--min-dur", "10s"], ("no row lasts 10s", "1.004928ms")),
    "both": (["--only-gpu", "--kind", "op"], ("no row passes --kind and --only-gpu together",)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", ["convert", "merge", "summary", "diff", "view"])
def test_every_command_says_what_there_is(command: str, case: str, tmp_path: Path) -> None:
    options, words = CASES[case]
    out = [] if command == "view" else ["-o", str(tmp_path / "out.csv")]
    inputs = [str(STEP)] * (2 if command == "diff" else 1)
    done = CliRunner().invoke(cli, [command, *inputs, *out, *options])
    assert isinstance(done.exception, ktrace.InputError), done.output
    for word in words:
        assert word in str(done.exception)
    assert not list(tmp_path.iterdir())


def _file(path: Path, *names: str) -> Path:
    rows: list[dict[str, Any]] = [{"ktrace": "1.0"}]
    rows += [event(number + 1, "kernel", name, 10 * number, 5, **GPU) for number, name in enumerate(names)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_one_side_of_a_diff_alone_has_is_new_or_gone(tmp_path: Path) -> None:
    a, b = _file(tmp_path / "a.jsonl", "gemm"), _file(tmp_path / "b.jsonl", "gemm", "softmax")
    wanted = ktrace.Filter(names=["softmax"])
    assert ktrace.diff(a, b, filter=wanted).rows["kernel"][0].verdict == "new"
    assert ktrace.diff(b, a, filter=wanted).rows["kernel"][0].verdict == "gone"
    with pytest.raises(ktrace.InputError, match="no name matches 'sofmax'"):
        ktrace.diff(a, b, filter=ktrace.Filter(names=["sofmax"]))


def test_metrics_of_other_kernels_are_an_error(tmp_path: Path) -> None:
    ncu = SAMPLES / "ncu" / "raw-units-row-nvtx-repeated-headings.csv"
    with pytest.raises(ktrace.InputError, match=r"none of its \d launches matches a kernel") as error:
        ktrace.convert(_file(tmp_path / "a.jsonl", "unheard_of"), tmp_path / "o.perfetto", metrics=ncu)
    assert "unheard_of" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_files_near_to_one_that_is_not_there(tmp_path: Path) -> None:
    _file(tmp_path / "rank0.jsonl", "gemm")
    for wrong in ("rnak0.jsonl", "rank0.jsnl", "rnak*.jsonl"):
        with pytest.raises(ktrace.InputError) as error:
            ktrace.summary(tmp_path / wrong)
        assert error.value.expected == "a name such as rank0.jsonl"


def test_a_batch_of_which_no_row_passes_fails(tmp_path: Path) -> None:
    _file(tmp_path / "a.jsonl", "gemm")
    arguments = ["batch", str(tmp_path / "*.jsonl"), "-o", str(tmp_path / "out/"), "--jobs", "1", "--name"]
    assert CliRunner().invoke(cli, [*arguments, "gemm"]).exit_code == 0
    done = CliRunner().invoke(cli, [*arguments, "gemn"])
    assert "no row of any input passes the filter" in str(done.exception)


@pytest.mark.parametrize(
    ("wanted", "names", "found"),
    [
        ("gemn", ["softmax", "gemm"], ["gemm"]),
        ("*GEMM*", ["ampere_gemm_a", "gemm", "softmax"], ["ampere_gemm_a", "gemm"]),
        ("*gemn*", ["ampere_s16816gemm_fp16", "softmax"], ["ampere_s16816gemm_fp16"]),
        ("x", ["softmax"], ["softmax"]),
        ("qqqq", ["softmax"], []),
        ("", ["softmax"], []),
        ("a" * 5000, ["b" * 5000] * 3, []),
    ],
)
def test_near_names(wanted: str, names: list[str], found: list[str]) -> None:
    assert near(wanted, names) == found
