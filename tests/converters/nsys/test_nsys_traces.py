"""Traces, reports of unified memory and files of one report of Nsight Systems, against the csv module."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES

from ktrace.conversion import Conversion
from ktrace.converters.nsys_stats.reader import _read_text
from ktrace.converters.nsys_stats.reports import report_of
from ktrace.input.detection import detect_sample
from ktrace.input.format import Score, builtin_formats
from ktrace.input.source import Sample, Source
from ktrace.pipeline.convert import convert
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace import read
from ktrace.trace.trace import Trace

FOLDER = SAMPLES / "nsys-stats"
FOUR = FOLDER / "traces-of-a-copy-two-kernels-and-their-calls.csv"
EXEC = FOLDER / "launches-with-their-kernels_cuda_kern_exec_trace.csv"
OLD = FOLDER / "old-trace-in-seconds-bom-crlf_gputrace.tsv"
TEXT = FOLDER / "text-of-nsys-nvprof-with-thousands-and-clipped-names.txt"
MEMORY = FOLDER / "memory-ranges-and-messages.csv"

GPU_HEAD = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)


def tables(path: Path, delimiter: str = ",") -> list[list[dict[str, str]]]:
    """The tables of a file as the csv module sees them: from a line that holds a heading to the next blank one."""
    found: list[list[dict[str, str]]] = []
    for part in path.read_text("utf-8-sig").replace("\r\n", "\n").split("\n\n"):
        lines = part.strip("\n").split("\n")
        heads = [index for index, line in enumerate(lines) if "(ns)" in line or "(us)" in line or "(sec)" in line]
        if heads:
            found.append(list(csv.DictReader(lines[heads[0] :], delimiter=delimiter)))
    return found


def args(rows: pd.DataFrame) -> list[dict[str, object]]:
    return [json.loads(text) if isinstance(text, str) else {} for text in rows.args]


def test_gpu_work_has_the_figures_that_the_csv_module_reads() -> None:
    expected = tables(FOUR)[0][:4]  # two more are broken
    trace = read(FOUR, "nsys-stats")
    rows = trace.events[trace.events.stream.notna()]
    assert rows.kind.tolist() == ["memcpy", "memset", "kernel", "kernel"]
    assert rows.copy_kind.tolist() == ["HtoD", *[pd.NA] * 3]
    for column, heading in {
        **{"ts": "Start (ns)", "dur": "Duration (ns)", "correlation": "CorrId", "context": "Ctx", "stream": "Strm"},
        **{"grid_x": "GrdX", "grid_y": "GrdY", "block_x": "BlkX", "block_y": "BlkY", "registers": "Reg/Trd"},
    }.items():
        said = [int(row[heading]) if row[heading] else pd.NA for row in expected]
        assert rows[column].tolist() == said, column
    assert rows.name.tolist() == [row["Name"] for row in expected]
    assert rows.device.tolist() == [0, 0, 0, 1]
    assert rows.timing.unique().tolist() == ["measured"]
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert dict(zip(devices.device, devices.name, strict=True)) == dict.fromkeys((0, 1), "NVIDIA H100 80GB HBM3")


def test_megabytes_are_millions_and_what_was_printed_stays() -> None:
    trace = read(FOUR, "nsys-stats")
    rows = trace.events[trace.events.stream.notna()]
    assert rows.bytes.tolist() == [2_097_000, *[pd.NA] * 3]
    assert rows.shared_memory.tolist() == [pd.NA, pd.NA, 166_000, pd.NA]
    assert rows.shared_dynamic.tolist() == [pd.NA, pd.NA, 164_000, pd.NA]
    said = args(rows)
    assert said[0] == {"Bytes (MB)": 2.097, "Throughput (MB/s)": 104857.6, "SrcMemKd": "Pinned", "DstMemKd": "Device"}
    assert said[1]["Bytes (MB)"] == 0.0
    assert said[2] == {"StcSMem (MB)": 0.002, "DymSMem (MB)": 0.164, "GreenCtx": 3}
    assert trace.report.issues["rounded-size"].rows == 3
    headings = ["StcSMem (MB)", "DymSMem (MB)", "Bytes (MB)"]
    assert trace.report.issues["rounded-size"].places == [("line 7", heading) for heading in headings]


def test_a_negative_duration_and_a_time_that_is_a_word_are_left_out() -> None:
    report = read(FOUR, "nsys-stats").report
    assert report.issues["negative-duration"].places == [("line 12", "")]
    assert report.issues["bad-record"].places == [("line 13", "no time")]
    assert set(report.issues) == {"negative-duration", "bad-record", "rounded-size"}
    assert report.balanced()


def test_calls_with_names_of_threads_and_arrows_to_their_work(tmp_path: Path) -> None:
    trace = read(FOUR, "nsys-stats")
    calls = trace.events[trace.events.kind == "api"]
    expected = tables(FOUR)[1]
    assert calls.name.tolist() == [row["Name"] for row in expected]
    assert calls.dur.sum() == sum(int(row["Duration (ns)"]) for row in expected)
    assert args(calls) == [{"Result": 0, "T-Pri": 20}] * 5
    threads = trace.catalog[trace.catalog.entity == "thread"]
    assert sorted(zip(threads.tid, threads.name, strict=True)) == [(4100, "python3"), (4177, "pt_autograd_0")]
    convert(FOUR, tmp_path / "o.trace.json")
    events = json.loads((tmp_path / "o.trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == 4


def test_ranges_keep_what_is_not_said_twice() -> None:
    rows = read(FOUR, "nsys-stats").events
    step, forward, projected = (row for _, row in rows[rows.kind == "range"].iterrows())
    assert (step["name"], step.ts, step.dur, step.pid, step.tid) == (":step 1", 980_000, 350_000, 4100, 4100)
    assert forward["name"] == "train:forward, backward"
    kept = {"DurChild (ns)": 0, "DurNonChild (ns)": 10_000, "Lvl": 1, "NumChild": 0, "RangeId": 2, "ParentId": 1}
    assert json.loads(forward.args) == kept | {"RangeStack": ":1:2"}
    assert (projected.ts, projected.dur, projected.track) == (1_000_200, 303_800, "NVTX GPU projection")
    assert json.loads(projected.args)["Orig Start (ns)"] == 980_000


def test_an_end_or_a_tree_that_says_something_else_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(
        "Start (ns),End (ns),Duration (ns),Name,RangeId,RangeStack,NameTree\n"
        "10,30,20,a,1,:1,a\n40,70,20,b,2,:1:2,--other\n80,95,,c,3,:3,c\n"
    )
    rows = read(path, "nsys-stats").events
    assert rows.dur.tolist() == [20, 20, 15]
    assert args(rows) == [
        {"RangeId": 1, "RangeStack": ":1"},
        {"End (ns)": 70, "NameTree": "--other", "RangeId": 2, "RangeStack": ":1:2"},
        {"RangeId": 3, "RangeStack": ":3"},
    ]


def test_a_launch_is_a_call_and_a_kernel_with_an_arrow() -> None:
    trace = read(EXEC, "nsys-stats")
    rows, expected = trace.events, tables(EXEC)[0]

    def ns(text: str) -> int:
        return int((Decimal(text) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))

    for index, row in enumerate(expected):
        call, kernel = rows.iloc[2 * index], rows.iloc[2 * index + 1]
        assert (call.kind, call.ts, call.dur) == ("api", ns(row["API Start (us)"]), ns(row["API Dur (us)"]))
        assert (kernel.kind, kernel.ts, kernel.dur) == (
            "kernel",
            ns(row["Kernel Start (us)"]),
            ns(row["Kernel Dur (us)"]),
        )
        assert kernel.parent == call.id
        assert (call["name"], kernel["name"]) == (row["API Function"], row["Kernel Name"])
        assert (call.pid, call.tid, kernel.pid, kernel.device) == (300, 301, 300, 0)
        launch = kernel[["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]].tolist()
        assert launch == [int(part) for cell in ("GridXYZ", "BlockXYZ") for part in row[cell].split()]
    assert rows.correlation.isna().all()
    assert args(rows)[1] == {"Queue Start (us)": 508.75, "Queue Dur (us)": 3.25, "Total Dur (us)": 51.875}
    assert args(rows)[3] == {"$dur": "2.5004", "Total Dur (us)": 13.001}
    assert trace.report.issues["rounded"].places == [("line 3", "$dur")]
    ends = trace.links.groupby("key").event.apply(list).tolist()
    assert ends == [rows.id.tolist()[:2], rows.id.tolist()[2:]]


def test_launches_without_anything_but_times_and_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("API Start (ns),Kernel Start (ns),API Function,Kernel Name\n5,9,cudaLaunchKernel,k\n")
    rows = read(path).events
    assert rows.ts.tolist() == [5, 9]
    assert rows[["dur", "pid", "device", "grid_x", "block_x", "args"]].isna().all(axis=None)


@pytest.mark.parametrize(("head", "row"), [("", ","), (",", ""), (",", ",")])
def test_a_separator_at_the_end_of_rows(head: str, row: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"Start (ns),Duration (ns),Strm,Name{head}\n1,2,7,k{row}\n3,4,7,m{row}\n")
    rows = read(path).events
    assert (rows.ts.tolist(), rows.name.tolist()) == ([1, 3], ["k", "m"])
    assert rows.args.isna().all()


def test_the_trace_of_2021_in_seconds() -> None:
    trace = read(OLD)
    rows, expected = trace.events, tables(OLD, "\t")[0]
    assert rows.ts.tolist() == [int(Decimal(row["Start(sec)"]) * 10**9) for row in expected]
    assert rows.dur.sum() == sum(int(row["Duration(nsec)"]) for row in expected)
    assert rows.bytes.tolist() == [4096, pd.NA, 8192]
    assert rows.copy_kind.tolist() == ["HtoD", pd.NA, "DtoH"]
    assert (rows.shared_memory[1], rows.shared_dynamic[1]) == (1536, 512)
    assert args(rows)[0] == {"Thru(MB/s)": 2069.492, "SrcMemKd": "Pageable", "DstMemKd": "Device"}
    assert not trace.report.issues


def test_a_trace_in_text_amid_the_output_of_the_program() -> None:
    trace = read(TEXT)
    rows = trace.events
    assert rows.ts.tolist() == [3_143_191_297, 3_212_065_077, 3_212_388_500]
    assert rows.dur.tolist() == [20_912_712, 322_911, 38_000_000]
    assert rows.bytes.tolist() == [200_000_000, pd.NA, 200_000_000]
    assert rows.name[1] == "vectorAdd(const float *, const f…"
    assert (rows.grid_x[1], rows.block_x[1], rows.registers[1]) == (195_313, 256, 16)
    assert args(rows)[0]["Throughput (MBps)"] == 9400.0
    assert trace.report.issues["unrecognised"].places == [("line 3", "")]


def test_measures_of_unified_memory_messages_and_calls_beside_kernels() -> None:
    trace = read(MEMORY)
    rows = trace.summaries
    total = rows[rows["table"] == 0]
    assert total.metric.tolist()[:2] == ["Total HtoD Migration Size", "Total DtoH Migration Size"]
    assert total.value.tolist() == [3050.439, 1073.676, 15360, 38007]
    assert total.unit.tolist() == ["MB", "MB", "count", "count"]
    assert total.parent.tolist() == [pd.NA, *[total.id.iloc[0]] * 3]
    assert set(total.name) == {"unifiedmemorytotals"}
    page = rows[rows.name == "0x7F9C80200000"]
    assert dict(zip(page.metric, page.value, strict=True)) == {
        "DtoH Migration Size": 0.004,
        "CPU Page Faults": 1,
        "Migration Throughput": 512,
    }
    fault = rows[rows.name == "0x4005d0"].iloc[0]
    assert (fault.value, json.loads(fault.args)) == (33, {"Source File": "main.cu", "Source Line": 17})
    both = rows[rows.cat.notna()]
    assert both.kind.tolist() == ["api", "kernel", "memcpy"]
    assert both.copy_kind.tolist() == [pd.NA, pd.NA, "DtoH"]
    message = rows[rows.name == "MPI_Allreduce"].iloc[0]
    assert (message.kind, message.metric, message.unit, message.total) == ("api", "bytes", "B", 4096)
    events = trace.events
    assert events.name.tolist() == ["MPI_Send", "MPI_Allreduce"]
    assert (events.ts.tolist(), events.dur.tolist()) == ([100, 500], [300, 1000])
    assert args(events)[0] == {"Size (MB)": 0.016, "Tag": 5, "Rank": 0, "PeerRank": 1}
    assert rows[rows.kind == "note"].name.tolist() == ["SKIPPED: um.sqlite does not contain Vulkan API data."]


@pytest.mark.parametrize("path", [FOUR, EXEC, MEMORY, OLD], ids=lambda path: path.name)
def test_columns_and_lines_give_the_same_rows(path: Path) -> None:
    source = Source(str(path))
    report = Report()
    by_line = Trace(_read_text(source, Conversion(report, label=source.label)), report)
    by_column = read(path, "nsys-stats")
    for record in ("events", "summaries", "links"):
        one, other = by_line.to_arrow()[record].to_pylist(), by_column.to_arrow()[record].to_pylist()
        assert one == other
    assert _issues(report) == _issues(by_column.report)


def _issues(report: Report) -> Counter[str]:
    """The rows of each kind of issue; a line with a word for a start is no row of a table that is read by lines."""
    found: Counter[str] = Counter()
    for kind, issue in report.issues.items():
        found["bad-record" if kind == "unrecognised" else kind] += issue.rows
    return found


def gpu_rows(count: int, seed: int) -> list[list[str]]:
    """Invented rows of cuda_gpu_trace."""
    chance = random.Random(seed)
    rows = []
    for index in range(count):
        start, duration = str(10**6 + index * 5000 + chance.randrange(900)), str(chance.randrange(1, 4000))
        place = [f"GPU, {index % 3} of 3 ({index % 3})", "1", "", str(7 + index % 2)]
        if index % 4:
            dims = [str(chance.randrange(1, 999)), "1", "1", "128", "1", "1", "32", "0.000", "0.049"]
            name = chance.choice(["k<int, 2>(float *)", "plain", 'quote "x"', "über\nzwei"])
            rows.append([start, duration, str(index), *dims, "", "", "", "", *place, name])
        else:
            size = f"{chance.randrange(1, 10**6) / 1000:.3f}"
            kinds = ["Pinned", "Device"]
            rows.append(
                [start, duration, str(index), *[""] * 9, size, "12.5", *kinds, *place, "[CUDA memcpy Device-to-Host]"]
            )
    return rows


def test_many_rows_with_broken_lines_between_against_the_csv_module(tmp_path: Path) -> None:
    rows = gpu_rows(2000, seed=4)
    path = tmp_path / "run_cuda_gpu_trace.csv"
    with path.open("w", newline="") as file:
        file.write(GPU_HEAD + "\n")
        writer = csv.writer(file, lineterminator="\n")
        for index, row in enumerate(rows):
            if index in (700, 1500):
                file.write("the program says something\n")
            writer.writerow(row)
    trace = read(path)
    events = trace.events
    assert len(events) == len(rows)
    assert events.dur.sum() == sum(int(row[1]) for row in rows)
    assert events.ts.tolist() == [int(row[0]) for row in rows]
    assert events.name.tolist() == [row[-1] for row in rows]
    assert events.bytes.sum() == sum(int(Decimal(row[12]) * 10**6) for row in rows if row[12])
    assert events.groupby("device").size().to_dict() == {0: 667, 1: 667, 2: 666}
    assert trace.report.issues["unrecognised"].rows == 2
    assert trace.report.balanced()
    for batch_rows in (13, 1000):
        batches = list(read_batches([str(path)], Report(), batch_rows=batch_rows))
        assert max(len(batch) for batch in batches) <= batch_rows
        assert Trace(iter(batches), Report()).equals(trace)


@pytest.mark.parametrize(
    ("unit", "start", "dur"),
    [
        ("ns", "1234567890123", "17"),
        ("us", "1234567890.123", "0.017"),
        ("ms", "1234567.890123", "0.000017"),
        ("s", "1234.567890123", "0.000000017"),
    ],
)
def test_units_of_time_in_the_headings(tmp_path: Path, unit: str, start: str, dur: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"Start ({unit}),Duration ({unit}),Strm,Name\n{start},{dur},7,k\n")
    trace = read(path)
    assert (trace.events.ts.tolist(), trace.events.dur.tolist()) == ([1_234_567_890_123], [17])
    assert not trace.report.issues


@pytest.mark.parametrize(
    ("start", "dur", "kind"),
    [
        ("4611686018427387904", "1", "time-range"),
        ("99999999999999999999999999", "1", "time-range"),
        ("1e80", "1", "time-range"),
        ("5", "-1", "negative-duration"),
        ("", "1", "bad-record"),
        ("1,5", "1", "bad-record"),
    ],
)
def test_times_that_cannot_be_are_left_out(tmp_path: Path, start: str, dur: str, kind: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'Start (ns),Duration (ns),Strm,Name\n"{start}",{dur},7,bad\n6,1,7,good\n')
    trace = read(path)
    assert trace.events.name.tolist() == ["good"]
    assert [place for place, _ in trace.report.issues[kind].places] == ["line 2"]
    assert trace.report.balanced()


def test_cells_that_are_no_numbers_stay_arguments(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "Start (ns),Duration (ns),CorrId,Reg/Trd,Bytes (MB),Device,Strm,Wave,Name\n"
        "1,2,0x10,9999999999,lots,H100,main,3,k\n"
    )
    trace = read(path)
    row = trace.events.iloc[0]
    assert row[["correlation", "registers", "bytes", "device", "stream"]].isna().all()
    said = {"CorrId": "0x10", "Reg/Trd": 9999999999, "Bytes (MB)": "lots", "Device": "H100", "Strm": "main", "Wave": 3}
    assert json.loads(row.args) == said
    assert trace.report.issues["unknown-column"].places == [("line 1", "Wave")]


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("run_cuda_gpu_kern_sum.csv", "cuda_gpu_kern_sum"),
        ("run.cuda_gpu_kern_sum_base.csv", "cuda_gpu_kern_sum"),
        ("out_cuda_gpu_kern_gb_sum.tsv", "cuda_gpu_kern_gb_sum"),
        ("my_gpu_run_osrt_sum.csv", "osrt_sum"),
        ("report1_gpukernsum.csv", "gpukernsum"),
        ("x_um_total_sum_nvtx=step.csv", "um_total_sum"),
        ("album_sum_of_all.csv", ""),
        ("trace.csv", ""),
    ],
)
def test_the_report_in_the_name_of_a_file(name: str, report: str) -> None:
    assert report_of(name) == report


def test_a_file_of_one_report_has_its_name_as_scope_and_its_kind(tmp_path: Path) -> None:
    heads = "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    for name, kind in (
        ("openacc_sum", "api"),
        ("openmp_sum", "api"),
        ("vulkan_marker_sum", "range"),
        ("cuda_gpu_kern_sum", "kernel"),
    ):
        path = tmp_path / f"out_{name}.csv"
        path.write_text(f"{heads}\n100.0,8,2,4.0,4.0,3,5,1.4,x\n")
        row = read(path).summaries.iloc[0]
        assert (list(row.scope), row.kind, row.total, row["count"]) == ([name], kind, 8, 2)


@pytest.mark.parametrize(
    "text",
    [
        '"Start","Duration","Grid X","Block X","Device","Stream","Name"\ns,us,,,,,\n1,2,3,4,"V100 (0)","7","k"\n',
        '"Kind","Agent_Id","Queue_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n"KERNEL_DISPATCH",1,1,"k",2,3\n',
        '"ID","Process ID","Process Name","Kernel Name","Stream","Metric Name"\n"0","1","p","k","7","m"\n',
        "Name,Start Time(ns),Duration(ns),GridX,GridY,GridZ\nk,1,2,3,4,5\n",
        "Operation,Total (ms),Count\nmatmul,1,2\n",
    ],
)
def test_traces_of_others_are_not_claimed(text: str) -> None:
    claims = detect_sample(Sample("x.csv", text.encode()), builtin_formats())
    assert "nsys-stats" not in [claim.format for claim in claims if claim.score > Score.NEAR]


def in_columns(rows: list[list[str]], *, boxed: bool) -> str:
    """A table as nsys prints it: numbers with thousands at the right, words at the left, a rule below the headings."""
    head, body = rows[0], [[thousands(cell) for cell in row] for row in rows[1:]]
    numeric = [all(re.fullmatch(r"[-\d.]*", row[index]) for row in rows[1:]) for index in range(len(head))]
    widths = [max(len(head[index]), *(len(row[index]) for row in body[:100])) for index in range(len(head))]
    lines = [[cell.center(width) for cell, width in zip(head, widths, strict=True)]]
    for row in body:
        aligned = zip(row, widths, numeric, strict=True)
        lines.append([cell.rjust(width) if right else cell.ljust(width) for cell, width, right in aligned])
    if boxed:
        rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        drawn = [f"| {' | '.join(line)} |" for line in lines]
        return "\n".join([rule, drawn[0], rule, *drawn[1:], rule]) + "\n"
    texts = [" " + "  ".join(line) for line in lines]
    return "\n".join([texts[0], " " + "  ".join("-" * width for width in widths), *texts[1:]]) + "\n"


def thousands(cell: str) -> str:
    whole, dot, rest = cell.partition(".")
    return f"{int(whole):,}{dot}{rest}" if re.fullmatch(r"-?\d+(\.\d+)?", cell) else cell


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("path", [FOUR, EXEC, MEMORY], ids=lambda path: path.name)
def test_columns_and_boxes_of_text_give_the_rows_of_csv(path: Path, boxed: bool, tmp_path: Path) -> None:
    parts = path.read_text().split("\n\n")
    text = ""
    for part in parts:
        lines = part.strip("\n").split("\n")
        rows = [line for line in lines if line.count(",") > 2]
        text += "\n".join(line for line in lines if line not in rows) + "\n\n"
        text += (in_columns(list(csv.reader(rows)), boxed=boxed) if rows else "") + "\n"
    copy = tmp_path / path.with_suffix(".txt").name
    copy.write_text(text)
    one, other = read(path), read(copy)
    assert len(one.events) + len(one.summaries) > 1
    for record in ("events", "summaries"):
        expected, found = one.to_arrow()[record].to_pylist(), other.to_arrow()[record].to_pylist()
        for rows in (expected, found):
            for row in rows:
                del row["id"], row["parent"], row["source"]
        assert found == expected


def test_many_rows_as_text(tmp_path: Path) -> None:
    rows = [[cell.replace("\n", " ") for cell in row] for row in gpu_rows(250, seed=9)]
    path = tmp_path / "run.txt"
    path.write_text(
        "[3/3] Executing 'gputrace' stats report\n\n" + in_columns([GPU_HEAD.split(","), *rows], boxed=False)
    )
    trace = read(path)
    assert trace.events.ts.tolist() == [int(row[0]) for row in rows]
    assert trace.events.dur.sum() == sum(int(row[1]) for row in rows)
    assert trace.events.name.tolist() == [row[-1] for row in rows]
    assert trace.events.stream.tolist() == [int(row[-2]) for row in rows]
    assert set(trace.report.issues) == {"rounded-size"}


def test_ranges_without_a_name_stay(tmp_path: Path) -> None:
    """The root of projected ranges has none; what was never projected has no time on the device."""
    path = tmp_path / "a_nvtx_gpu_proj_trace.csv"
    path.write_text(
        "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,"
        "Lvl,NumChild,RangeId,ParentId,RangeStack\n"
        ",100,900,,,,7,8,3,,0,,,\nstep,150,200,120,300,PushPop,7,7,1,0,0,1,,:1\nidle,,,500,20,PushPop,7,7,0,0,0,2,,:2\n"
    )
    trace = read(path)
    assert trace.events[["name", "ts", "dur"]].values.tolist() == [["[no name]", 100, 900], ["step", 150, 200]]
    assert trace.report.issues["bad-record"].rows == 1
