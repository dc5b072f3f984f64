"""What a person meets who doesn't know the commands yet: hints, the line to type, how to go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES
from fork_server import program

import ktrace
from ktrace.analysis.answers.diff.sides import compare
from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.server import answered
from ktrace.analysis.answers.mcp.session import Session
from ktrace.analysis.questions.overview import Stored, store
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.cli import cli
from ktrace.errors import UsageError
from ktrace.pipeline.info import inspect
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.tables import Column, Table, brief, duration
from ktrace.tables.text import as_text

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
    [
        *(("open", "view"), ("top", "summary"), ("stats", "summary"), ("compare", "diff"), ("export", "convert")),
        *(("kernels", "summary --by kernel"), ("gate", "diff --fail-over")),
    ],
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


def ranks_of(folder: Path, *ranks: int, seconds: float = 1.0) -> Path:
    """A folder with the trace of each rank: two steps with a kernel each."""
    folder.mkdir()
    for rank in ranks:
        events = [
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": rank, "tid": 7, "ts": 1000 * step, "dur": 500 * seconds}
            | {"args": {"device": rank, "stream": 7}}
            for step in range(2)
        ]
        head = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": len(ranks)}}
        (folder / f"node7_{4000 + rank}.172400000000000{rank}.pt.trace.json").write_text(
            json.dumps(head | {"traceEvents": events})
        )
    return folder


def test_devices_of_ranks_are_called_by_their_rank(tmp_path: Path) -> None:
    folder = ranks_of(tmp_path / "job", 0, 1)
    assert [use.label for use in ktrace.summary(folder).devices] == ["rank 0 device 0", "rank 1 device 1"]
    assert "rank 1 device 1" in run("summary", folder, "--by", "idle").stdout
    twice = ranks_of(tmp_path / "twice", 0)
    (twice / "again.json").write_text(next(twice.glob("node*")).read_text().replace('"gemm"', '"other"'))
    assert all("rank" not in use.label for use in ktrace.summary(twice).devices)  # the rank tells nothing apart


def test_a_comparison_of_many_devices_has_the_median_and_those_that_changed_most(tmp_path: Path) -> None:
    a, b = ranks_of(tmp_path / "a", *range(6)), ranks_of(tmp_path / "b", *range(6))
    slow = next(b.glob("node7_4003*"))
    slow.write_text(slow.read_text().replace('"dur": 500.0', '"dur": 900.0'))
    diff = compare(a, b)
    people, programs = (diff.tables(full=full)[-1] for full in (False, True))
    assert [*dict.fromkeys(row[0] for row in programs.rows)] == [f"rank {n} device {n}" for n in range(6)]
    shown = [*dict.fromkeys(row[0] for row in people.rows)]
    assert shown[:2] == ["median", "rank 3 device 3"] and len(shown) == 3
    busy = {row[0]: row[2:5] for row in people.rows if row[1] == "busy"}
    assert busy["median"] == (1_000_000, 1_000_000, 0)
    assert busy["rank 3 device 3"] == (1_000_000, 1_800_000, 800_000)
    assert "the median of 6 devices, and the 2 that changed most" in people.title
    few = compare(ranks_of(tmp_path / "c", 0, 1), ranks_of(tmp_path / "d", 0, 1)).tables(full=False)[-1]
    assert "median" not in few.title and "rank 1 device 1" in {row[0] for row in few.rows}


@pytest.mark.parametrize(
    ("command", "option", "meant"),
    [("summary", "--json", "--format json"), ("diff", "--junit", "--format junit"), ("query", "--csv", "--format csv")],
)
def test_a_form_as_an_option_is_told_the_option(command: str, option: str, meant: str) -> None:
    done = subprocess.run([program(), command, STEP, option], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"No such option '{option}'. Did you mean '{meant}'?" in done.stderr


def test_other_options_that_do_not_exist_get_no_form() -> None:
    for command, option in (("summary", "--nothing-like-it"), ("merge", "--csv")):
        done = subprocess.run([program(), command, STEP, option], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "Did you mean '--format" not in done.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("diff", STEP, STEP, "--threshold", "5%"), "Did you mean '--fail-over'?"),
        (("summary", STEP, "--limit", "3"), "Did you mean '--top'?"),
    ],
)
def test_options_of_other_tools_name_the_option(words: tuple[object, ...], meant: str) -> None:
    done = subprocess.run([program(), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and meant in done.stderr


def test_a_web_developer_finds_the_formats_of_pages() -> None:
    names = [line.split()[0] for line in run("formats", "webgpu").stdout.splitlines()[1:] if line[:1].strip()]
    assert {"console", "doppler", "ort-web", "webllm"} <= {*names}


def test_a_table_of_another_question_is_told_how_it_is_added() -> None:
    error = str(run("summary", STEP, "--format", "json", "--tables", "kernel,op").exception)
    assert "there is no table 'op'" in error and "hint: what --by adds needs --by, too" in error


def test_hints_name_the_input(tmp_path: Path) -> None:
    for path in (SAMPLES / "llama-bench/log-with-devices-two-builds.md", SAMPLES / "smi/dmon-with-date-and-time.txt"):
        said = re.sub(r"\s+", " ", run("summary", path).stdout)
        assert re.search(rf"ktrace (query|summary) {re.escape(str(path))} ", said) and " IN " not in said
    error = str(run("validate", STEP).exception)
    assert f"convert it first: ktrace convert {STEP} -o OUT.jsonl" in error


def test_figures_that_are_stated_have_all_their_digits(tmp_path: Path) -> None:
    log = tmp_path / "bench.md"
    log.write_text(
        "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| llama 7B Q4_0 | 3.56 GiB | 6.74 B | CUDA | 99 | pp512 | 13573.98 ± 20.63 |\n"
    )
    assert "13,573.98 tokens/s" in run("summary", log).stdout


def test_a_log_of_a_server_states_its_rates() -> None:
    stated = dict(ktrace.summary(SAMPLES / "llama/server-two-slots-with-times.log").stated)
    assert stated["eval rate, slot 0, task 0"] == "39.98 tokens/s"
    assert stated["prompt eval rate, slot 1, task 5"] == "100 tokens/s"


def test_rates_of_many_requests_are_a_median_and_a_range(tmp_path: Path) -> None:
    line = (
        "{}I slot print_timing: id  0 | task {} |        eval time = {:10.2f} ms / 10 tokens "
        "( 1.00 ms per token, {} tokens per second)\n"
    )
    log = tmp_path / "server.log"
    log.write_text("".join(line.format(f"0.{n + 1:02}.000.000 ", n, 10.0, 100 + n) for n in range(100)))
    stated = dict(ktrace.summary(log).stated)
    assert stated == {"eval rate, median of 100": "149.5 tokens/s (100 to 199)"}
    few = tmp_path / "few.log"
    few.write_text("".join(line.format(f"0.{n + 1:02}.000.000 ", n, 10.0, 100 + n) for n in range(3)))
    assert "median" not in " ".join(dict(ktrace.summary(few).stated))


def test_what_the_host_alone_can_answer_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        events = [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1000 * step + 5, "dur": 90}
            for step in range(3)
        ]
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 9, "ts": 1000 * step}
            | {"dur": 100}
            for step in range(3)
        ]
        head = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}}
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(json.dumps(head | {"traceEvents": events}))
    assert "also known: --by rank, step" in run("summary", tmp_path).stdout
    assert "rank" not in run("summary", tmp_path / "rank0.pt.trace.json").stdout.splitlines()[-1]


def test_remedies_are_of_the_profiler_that_recorded(tmp_path: Path) -> None:
    def said(name: str) -> str:
        return re.sub(r"\s+", " ", run("summary", tmp_path / name).stdout)

    calls = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    calls += "".join(f'"HIP_RUNTIME_API","hipLaunchKernel",1,1,{n},{n}000,{n}900\n' for n in range(1, 13))
    (tmp_path / "1_hip_api_trace.csv").write_text(calls)
    assert "Record the device, too (rocprofv3 --sys-trace)" in said("1_hip_api_trace.csv")
    launches = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 10 * n, "dur": 5}
        | {"args": {"correlation": n}}
        for n in range(1, 13)
    ]
    (tmp_path / "torch.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": launches}))
    assert "ProfilerActivity.CUDA" in said("torch.json")
    kernels = (
        '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    )
    kernels += "".join(f'"KERNEL_DISPATCH","Agent 1",1,1,"gemm_nt",{n},{n}000,{n}990\n' for n in range(1, 13))
    (tmp_path / "1_kernel_trace.csv").write_text(kernels)
    assert "try: Measure how far its kernels are from the device's peak: rocprof-compute profile." in said(
        "1_kernel_trace.csv"
    )


def test_counters_of_other_profilers_are_no_metrics_of_launches(tmp_path: Path) -> None:
    counters = SAMPLES / "rocprofv3/dispatches-out-of-order_counter_collection.csv"
    done = run("convert", NSYS, "--metrics", counters, "-o", tmp_path / "o.perfetto")
    assert "counters of other profilers are read with their own kernels, without --metrics" in str(done.exception)


def test_an_input_without_contents_has_no_table_of_them(tmp_path: Path) -> None:
    empty = tmp_path / "empty.xml"
    empty.write_text(
        '<?xml version="1.0"?><trace-query-result><node><schema name="hang-risks"><col><mnemonic>time</mnemonic>'
        "<name>T</name><engineering-type>start-time</engineering-type></col></schema></node></trace-query-result>"
    )
    shown = run("info", empty)
    assert "no contents" in shown.stdout and "record" not in shown.stdout.splitlines()[-1]
    assert "First:" not in run("summary", empty).stderr


def test_a_check_of_many_inputs_names_the_first_and_the_last(tmp_path: Path) -> None:
    text = run("check", ranks_of(tmp_path / "job", *range(8))).stdout
    assert text.startswith("8 inputs, node7_4000.1724000000000000.pt.trace to node7_4007.")


def test_a_group_is_a_text_in_python_too() -> None:
    trace = ktrace.read(STEP)
    assert [*trace.summary("operation").groups] == [*trace.summary(["operation"]).groups] == ["operation"]
    assert [*trace.summary(by="op,operation").answers] == ["op"]
    assert [*trace.diff(trace, by="operation").rows] == ["operation"]


@pytest.mark.parametrize(("name", "meant"), [("summary", "overview"), ("diff", "compare"), ("kernels", "kernel")])
def test_an_agent_is_told_the_tool(name: str, meant: str) -> None:
    session = Session(Access([SAMPLES]), 1 << 30)
    assert answered(session, name, {})["error"]["remedy"] == f"did you mean {meant}?"
    assert "remedy" not in answered(session, "qqqq", {})["error"]


def test_names_of_other_libraries_name_the_function() -> None:
    for name, meant in (("info", "inspect"), ("load", "read"), ("summarize", "summary")):
        with pytest.raises(AttributeError, match=f"Did you mean: '{meant}'"):
            getattr(ktrace, name)
    with pytest.raises(AttributeError, match=r"no attribute 'qqqq'$"):
        ktrace.qqqq  # noqa: B018
    with pytest.raises(UsageError) as caught:
        ktrace.summary(STEP).plot("kernel")
    assert "did you mean kernels?" in str(caught.value)


def test_a_trace_is_four_frames() -> None:
    trace = ktrace.read(STEP)
    frames = trace.to_pandas()
    assert [*frames] == [*trace.to_arrow()] and frames["events"] is trace.events


def test_a_file_with_figures_is_told_on_a_terminal(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="no terminals here")
    ours, theirs = pty.openpty()
    out = tmp_path / "step.html"
    subprocess.run([program(), "summary", STEP, "-o", out], stdout=theirs, stderr=theirs, check=True)
    assert f"{out}, {out.stat().st_size / 1000:.1f} kB. Open it in a browser" in os.read(ours, 1 << 16).decode()
    os.close(ours), os.close(theirs)
    piped = subprocess.run([program(), "summary", STEP, "-o", tmp_path / "b.html"], capture_output=True, check=True)
    assert not piped.stdout and not piped.stderr


def test_tools_of_all_inputs_are_named(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "rocprofv3/dispatches-out-of-order_counter_collection.csv", tmp_path)
    shutil.copy(SAMPLES / "llama-bench/three-tests.json", tmp_path)
    assert ktrace.summary(tmp_path).tools == ["llama-bench", "ROCm rocprofv3 CSV"]
    assert ktrace.summary(STEP).tools == ["PyTorch profiler"]


def test_operators_of_the_host_keep_their_namespaces(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    calls = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": 10}
        for ts, name in ((0, "aten::copy_"), (20, "mine::copy_"), (40, "aten::copy_"))
    ]
    kernels = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": 5, "args": {"device": 0}}
        for ts, name in ((0, "void add<float>(int)"), (20, "void add<double>(int)"), (40, "mul"))
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": calls + kernels}))
    report = Report()
    (folder := tmp_path / "stored").mkdir()
    store(read_selected([str(path)], report, Selection(classify=True)), folder, report)
    overview = Overview(Stored(folder), "")
    heavy = overview.heavy((0, overview.length))
    host, device = ([(heavy["names"][row[0]][0], *row[1:]) for row in heavy[part]] for part in ("host", "device"))
    assert host == [("aten::copy_", 20_000, 2), ("mine::copy_", 10_000, 1)]
    assert device == [("add", 10_000, 2), ("mul", 5_000, 1)]  # one short name is one row, as in a summary
    assert heavy["totals"] == {"device": 15_000, "host": 30_000, "ranges": 0}


def test_notes_break_between_words() -> None:
    note = "This input has no phase information: " + "nothing names a batch " * 9
    table = Table("a", "", (Column("a"),), [("b",)], [note.strip()])
    lines = as_text([table], width=60).splitlines()
    assert max(map(len, lines)) <= 60 and " ".join(lines[2:]) == note.strip()
    assert as_text([table]).splitlines()[2] == note.strip()


def test_no_two_headings_of_a_table_are_alike(tmp_path: Path) -> None:
    answer = ktrace.summary(ranks_of(tmp_path / "job", 0, 1), by="collective").answers.get("collective")
    for table in answer.tables(brief=True) if answer else ():
        assert len({column.heading for column in table.columns}) == len(table.columns)
    heads = {
        column.name: column.heading for table in compare(STEP, STEP).tables(full=False) for column in table.columns
    }
    assert heads["each"] == "per call" and heads["noise"] == "noise"


def test_an_input_of_several_hosts_is_named_once(tmp_path: Path) -> None:
    rows = [
        {"ktrace": "1.0"},
        *(
            {"record": "catalog", "source": "s", "id": n, "entity": "source", "host": host}
            for n, host in enumerate("ab")
        ),
        {"record": "events", "source": "s", "id": 9, "kind": "kernel", "name": "gemm", "ts": 0, "dur": 5, "device": 0},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ktrace.summary(path).sources == ["s"]
