"""The summary on one screen: 40 lines of 100 columns, with the verdict's claims, and only those."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES
from msgspec.structs import replace

from ktrace.analysis.answers.summary.compute import summarise
from ktrace.analysis.answers.summary.screen import LINES, WIDTH, inputs_of, screen
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.launches.answer import LimitsAnswer
from ktrace.analysis.work.groups import NOT_KNOWN
from ktrace.cli import cli

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
REAL = SAMPLES / "real"
DEFAULT = ("idle", "limits", "operation", "kernel")
INPUTS = sorted(
    path
    for name in ("corpus/pytorch_kineto", "corpus/nsys_sqlite", "corpus/rpd", "corpus/xplane", "corpus/nvprof")
    for path in (REAL / name).glob("*")
    if path.is_file()
)
SMALL = sorted(path for name in ("doppler", "table", "ncu", "torch-memory") for path in (SAMPLES / name).glob("*.*"))


def of(path: Path) -> Summary:
    summary = summarise(path, by=DEFAULT)
    summary.notes = [note for note in summary.notes if not note.startswith(NOT_KNOWN)]  # as the command does
    return summary


def flat(text: str) -> str:
    """The text without its line breaks and indents."""
    return re.sub(r"\s+", " ", text)


def kernel(ts: float, dur: float, name: str = "gemm_a", **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7} | args
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def written(path: Path, *events: dict[str, Any], rank: int | None = None, world: int = 1) -> Path:
    facts = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)} | facts))
    return path


@pytest.mark.parametrize("path", [*INPUTS, *SMALL], ids=lambda path: path.name)
def test_forty_lines_of_a_hundred_columns(path: Path) -> None:
    try:
        text = screen(of(path))
    except Exception as error:  # some samples are the parts of a folder, or nothing to read
        pytest.skip(str(error).partition("\n")[0])
    lines = text.splitlines()
    assert len(lines) <= LINES == 40
    assert max(map(len, lines)) <= WIDTH == 100
    assert "--full" in flat(lines[-1]) or "--full" in flat(lines[-2])
    assert "" not in (lines[0], lines[-1]) and "\n\n\n" not in text


def test_what_a_training_shows() -> None:
    lines = screen(of(STEP)).splitlines()
    assert flat(" ".join(lines[:2])).startswith(
        "one-step-of-training.pt.trace · PyTorch profiler · NVIDIA H100 80GB HBM3 · 1 step, 1.00 ms · 1.00 ms recorded"
    )
    assert "busy 86.4%   compute 73.1%   exposed communication 12.1%   exposed copies 1.2%   idle 13.6%" in lines
    [first] = [line for line in lines if line.startswith("1  ")]
    assert first.split()[:4] == ["1", "12.1%", "117", "us"]
    assert any(line.startswith("gemm ") and "249.629 us" in line for line in lines)
    assert flat(" ".join(lines[-2:])) == (
        "also known: --by collective, op, range, pass · not recorded: memory · all tables: --full · "
        "a page: -o page.html"
    )


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_every_claim_of_the_verdict_is_on_it(path: Path) -> None:
    """What is to be looked at stands there with share and time; every other sentence word by word."""
    summary = of(path)
    text = flat(screen(summary))
    looked = sorted((one for one in summary.findings if one.look), key=lambda one: one.look or 0)
    for place, one in enumerate(looked[:3], 1):
        assert flat(f"{place} {one.share:5.1f}% ") in text
        assert not one.remedy or one.remedy in text
    for sentence in summary.verdict:
        if "look" in sentence.lower() or (looked and " takes the most " in sentence):
            continue  # these are the findings, and the first rows of the tables
        assert flat(sentence) in text, sentence


def test_shares_are_not_said_where_a_check_takes_them_away(tmp_path: Path) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 2}
    calls = [launch | {"ts": 10 * n, "args": {"correlation": n}} for n in range(1, 101)]
    kernels = [kernel(10 * n + 5, 4, correlation=n) for n in range(1, 101)]
    whole = screen(of(written(tmp_path / "whole.json", *calls, *kernels)))
    assert re.search(r"^busy .*idle ", whole, re.M)
    lacking = screen(of(written(tmp_path / "lacking.json", *calls, *kernels[::2])))
    assert not re.search(r"^busy .*idle ", lacking, re.M)
    assert lacking.partition("\n\n")[2].startswith("! ")  # what is wrong comes first


def test_steps_of_which_none_stands_out_and_one_that_does(tmp_path: Path) -> None:
    def steps(*lengths: float) -> Path:
        events, at = [], 0.0
        for number, length in enumerate(lengths):
            events += [kernel(at + 1, length - 2)]
            events += [
                {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1, "ts": at}
                | {"dur": length}
            ]
            at += length
        return written(tmp_path / "steps.json", *events)

    assert "Steps take 1.00 ms to 1.01 ms; none stands out." in screen(of(steps(1000, 1010, 1005, 1002)))
    slow = screen(of(steps(*[1000.0] * 10, 3000, *[1000.0] * 10)))
    assert "stands out" not in slow and slow.index("Not steady") < slow.index("where to look first")
    assert "Steps take 1.00 ms; none stands out." in screen(of(steps(*[1000.0] * 4)))
    assert "Steps take 1.00 ms to 2.00 ms.\n" in screen(of(steps(1000, 2000, 1800, 1400)))  # nothing tells which


def many(folder: Path, ranks: int) -> list[Path]:
    """Ranks whose device is busy for less, the higher their number is."""
    return [
        written(folder / f"rank{n}.json", *(kernel(100 * k, 90 - n) for k in range(10)), rank=n, world=ranks)
        for n in range(ranks)
    ]


def test_many_ranks_are_three_rows_and_the_worst_three(tmp_path: Path) -> None:
    many(tmp_path, 64)
    summary = summarise(str(tmp_path / "rank*.json"), by=(*DEFAULT, "collective"))
    assert summary.sources[:3] == ["rank0", "rank1", "rank2"]
    lines = screen(summary).splitlines()
    assert len(lines) <= LINES
    assert lines[0].startswith("64 inputs, rank0 to rank63 · ")
    assert inputs_of(summary) == "64 inputs, rank0 to rank63"
    begin = lines.index("64 devices, and the 3 that are the least busy")
    names = [re.split(" device|  ", line)[0] for line in lines[begin + 2 : begin + 8]]
    assert names == ["minimum", "median", "maximum", "rank 63", "rank 62", "rank 61"]


def test_tables_of_more_devices_than_rows_are_folded(tmp_path: Path) -> None:
    """The figures of all are in the rows of least, median and most; idle times of all devices add up."""
    many(tmp_path, 24)
    summary = summarise(str(tmp_path / "rank*.json"), by=DEFAULT)
    folded = {table.name: table for table in summary.tables(DEFAULT, 10, brief=True)}
    whole = {table.name: table for table in summary.tables(DEFAULT, brief=True)}
    for name in ("devices", "waits"):
        assert [str(row[0]) for row in folded[name].rows[:3]] == ["minimum", "median", "maximum"]
        worst = [str(row[0]).partition(" device")[0] for row in folded[name].rows[3:]]
        assert worst == ["rank 23", "rank 22", "rank 21"]
        assert len(whole[name].rows) == 24
        busy = sorted(float(str(row[2])) for row in whole[name].rows)
        assert [row[2] for row in folded[name].rows[:3]] == [busy[0], (busy[11] + busy[12]) / 2, busy[-1]]
    assert folded["idle"].title == "why 24 devices are idle, all together"
    assert folded["idle"].columns[0].name == "cause"
    time = [column.name for column in whole["idle"].columns].index("time")
    assert sum(row[1] for row in folded["idle"].rows) == sum(row[time] for row in whole["idle"].rows)  # type: ignore[misc]
    text = CliRunner().invoke(cli, ["summary", str(tmp_path), "--full"]).stdout
    assert len(text.splitlines()) < 100 and "rank0, rank1, rank2 and 21 more" in text


def test_few_devices_have_a_row_each(tmp_path: Path) -> None:
    lines = screen(summarise(many(tmp_path, 4), by=DEFAULT)).splitlines()
    assert [line[:6] for line in lines if re.match(r"rank \d", line)][-4:] == [f"rank {n}" for n in range(4)]
    assert not any(line.startswith("median ") for line in lines)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("kineto/one-step-of-training.pt.trace.json", " · NVIDIA H100 80GB HBM3 · "),
        ("rpd/two-calls-a-kernel-never-run-and-nulls.rpd", " · 2 devices · "),  # called GPU 2 and GPU 3
    ],
)
def test_devices_are_told_by_model_and_not_by_number(sample: str, said: str) -> None:
    head, _, _ = screen(of(SAMPLES / sample)).partition("recorded")
    assert said in head.replace("\n", " ")


def test_top_is_obeyed_by_all_tables(tmp_path: Path) -> None:
    many(tmp_path, 12)
    for table in summarise(str(tmp_path / "rank*.json"), by=(*DEFAULT, "collective")).tables(DEFAULT, 5, brief=True):
        assert table.sentences or len(table.rows) <= 5, table.name
    done = CliRunner().invoke(cli, ["summary", str(STEP), "--top", "2"])
    lines = done.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("kernel "))
    assert lines[place].startswith("kernel (2 of 13) ") and not lines[place + 3]


def test_what_else_can_be_asked(tmp_path: Path) -> None:
    names = ("execute_context_0(0)_generation_3(3)", "ProfilerStep#1", "ProfilerStep#2")
    spans = [
        {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": 100 * place, "dur": 50}
        for place, name in enumerate(names)
    ]
    assert "--by phase, range, step" in flat(screen(of(written(tmp_path / "a.json", kernel(0, 9), *spans))))
    assert "also known" not in screen(of(written(tmp_path / "b.json", kernel(0, 9))))


def test_figures_that_a_log_states_are_an_answer() -> None:
    text = screen(of(SAMPLES / "doppler/prefill-and-three-decodes.log"))
    assert re.search(r"^TTFT +76\.000 ms$", text, re.M)
    assert re.search(r"^Decode tok/s +86\.4 tokens/s$", text, re.M)
    assert "stated by the source" not in screen(of(STEP))


def test_options_that_ask_for_tables_show_them() -> None:
    def shows(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["summary", str(STEP), *arguments]).stdout

    for more in (["--full"], ["--by", "kernel"], ["--tables", "overview"], ["--bytes", "4000"]):
        assert "all tables: --full" not in shows(*more)
    assert "all tables: --full" in shows()
    assert "why device 0 is idle" in shows("--full") and "why device 0 is idle" not in shows()


def test_colours_make_figures_bold_and_change_no_text() -> None:
    summary = of(STEP)
    coloured = screen(summary, colour=True)
    assert "\x1b[1m86.4%\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == screen(summary)


def test_a_folder_with_one_source_has_the_screen_too(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", tmp_path / "run")
    printed = CliRunner().invoke(cli, ["summary", str(tmp_path / "run")]).output
    assert "all tables: --full" in printed
    assert len(printed.splitlines()) <= 40


def test_times_of_ranges_are_stated_where_nothing_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "llama_perf_context_print:        eval time =     900.00 ms /     9 runs   ( 100.00 ms per token)\n"
    )
    said = CliRunner().invoke(cli, ["summary", str(path)]).stdout
    assert "stated by the source" in said and re.search(r"eval +900\.000 ms", said)
    path.write_text("Kernel,Calls,Total (ms)\ngemm,10,100.0\n")
    assert "stated by the source" not in CliRunner().invoke(cli, ["summary", str(path)]).stdout


def test_by_prints_the_verdict_and_the_answer() -> None:
    """Tables of devices and steps come with --full, or where they are asked for; a note says what isn't there."""

    def shows(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["summary", str(STEP), *arguments]).stdout

    asked = shows("--by", "op")
    assert asked.startswith("gemm takes the most device time: 26.8%") and "\n\ndevice time by operator\n" in asked
    for of_the_whole in ("utilisation of device 0", "\nsteps\n", "\nsource "):
        assert of_the_whole not in asked and of_the_whole in shows("--by", "op", "--full")
    assert "\nsteps\n" in shows("--by", "step") and "utilisation of device 0" not in shows("--by", "step")
    assert "utilisation of device 0" in shows("--by", "device")
    assert "This input has no roofline information." in flat(shows("--by", "roofline")).rpartition("Try: ")[2]
    assert "utilisation of device 0" in shows("--by", "op", "--format", "md")


def test_prose_of_the_profiler_begins_in_two_lines() -> None:
    report = next(iter(sorted((SAMPLES / "ncu").glob("details-with-rules*"))))
    summary = of(report)
    limits = summary.answers["limits"]
    assert isinstance(limits, LimitsAnswer) and limits.advice
    told = "Each warp waits for the queue of the L1 cache, which isn't empty. " * 6
    summary.answers |= {"limits": replace(limits, advice=[replace(one, text=told) for one in limits.advice])}
    lines = [line for line in screen(summary).splitlines() if line.startswith("    ")]
    assert sum(line.startswith("    Each warp waits") for line in lines) == len(limits.advice)
    assert len(lines) == 2 * len(limits.advice) and max(map(len, lines)) <= WIDTH
