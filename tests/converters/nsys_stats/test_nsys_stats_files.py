"""JSON, HTML and the oddities of CSV of Nsight Systems, against the json and csv modules and plain arithmetic."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

from ktrace.converters.nsys_stats import documents
from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.kit.text import json_items
from ktrace.trace import read
from ktrace.trace.trace import Trace

FOLDER = SAMPLES / "nsys-stats"
CORPUS = SHARED / "corpus" / "nsys_stats_2023.4"
FIELDS = ("percent", "count", "total", "avg", "median", "min", "max", "stddev", "unit", "kind", "metric")


def sample(name: str) -> Trace:
    return read(FOLDER / name)


def severe(trace: Trace) -> list[str]:
    return [kind for kind, issue in trace.report.issues.items() if issue.severity]


def test_json_of_several_reports() -> None:
    trace = sample("json-of-three-reports-amid-nsys-own-words.json")
    rows = trace.summaries
    assert rows.name.tolist()[:3] == ['gemm<"a, b">(int)', "a name\nof two lines", "[no name]"]
    assert rows.kind.tolist() == ["kernel", "kernel", "range", "note"]
    assert rows.total.tolist()[:3] == [1_500_250, 500_000, 70_000] and rows["count"].tolist()[:3] == [3, 1, 2]
    assert [scope[0] for scope in rows.scope] == ["cuda_gpu_kern_sum", "cuda_gpu_kern_sum", "nvtx_sum", "um_sum"]
    calls = trace.events
    assert calls[["ts", "dur", "correlation", "pid", "tid"]].values.tolist() == [
        [1_000_000, 3125, 11, 70, 71],
        [1_010_000, 2000, 12, 70, 71],
    ]
    assert set(calls.kind) == {"api"} and not trace.report.issues and trace.report.reader.balanced()


def test_html_of_a_page_and_a_bare_table() -> None:
    trace = sample("page-and-raw-table-of-a-summary-and-a-trace.html")
    rows = trace.summaries
    assert rows.name.tolist() == ["scale<float, int>(T1 *)", 'a && b | "c"']
    assert rows[["total", "count", "percent"]].values.tolist() == [[600, 2, 60], [400, 1, 40]]
    assert list(rows.scope.iloc[0]) == ["CUDA GPU Kernel Summary (cuda_gpu_kern_sum)"]
    work = trace.events
    assert work[["kind", "ts", "dur", "device", "stream", "correlation"]].values.tolist() == [
        ["kernel", 5000, 300, 1, 7, 7],
        ["memcpy", 6000, 150, 1, 7, 8],
    ]
    assert work.bytes.tolist()[1] == 2_097_000 and work.copy_kind.tolist()[1] == "HtoD"
    assert not severe(trace) and trace.report.reader.balanced()


def test_the_bytes_of_a_page_are_those_of_its_rows_of_markup_and_of_what_is_left_out(tmp_path: Path) -> None:
    data = (SAMPLES / "nsys-stats/page-and-raw-table-of-a-summary-and-a-trace.html").read_bytes()
    row, last = data.index(b"<tr>", data.index(b"</thead>")), data.rindex(b"</tr>")
    for damaged, lost in (
        (data, b""),
        (data[:row] + b"lost &amp; found\nlost again\n" + data[row:], b"lost again\n"),
        (data[:row] + b"lost \xff\xfe" + data[row:], b"lost \xff\xfe"),
        (data[: last - 9], data[data.rindex(b"<td>6000") : last - 9]),
    ):
        path = tmp_path / "page.html"
        path.write_bytes(damaged)
        account = read(path, "nsys-stats").report.bytes
        assert account.balanced()
        assert account.size == len(damaged)
        skipped = b"".join(damaged[piece.start : piece.end] for piece in account.ranges)
        assert lost in skipped
        assert account.skipped < len(lost) + 60


def test_quotes_that_are_not_doubled_and_ranges_without_a_name() -> None:
    trace = sample("quotes-not-doubled-and-no-name_nvtx_sum.csv")
    rows = trace.summaries
    assert rows.name.tolist() == ["[no name]", 'batch {"size": 8, "last": "no"}', "load, decode", 'say "hi"']
    assert rows.total.tolist() == [4000, 3000, 2000, 1000] and set(rows.kind) == {"range"}
    assert not trace.report.issues


def test_launches_in_sum_have_the_times_of_the_kernel() -> None:
    trace = sample("launches-in-sum_cuda_kern_exec_sum.csv")
    rows = trace.summaries
    assert choose(Source(str(FOLDER / "launches-in-sum_cuda_kern_exec_sum.csv"))).name == "nsys-stats"
    assert rows.total.isna().all() and set(rows.kind) == {"kernel"}
    assert rows[["device", "count", "avg", "min", "max"]].values.tolist() == [
        [0, 10, 1800.5, 1700, 2100],
        [1, 2, 2500, 2000, 3000],
    ]
    args = json.loads(rows.args.iloc[0])
    assert args["TAvg (ns)"] == 52000.5 and args["AAvg (ns)"] == 3000.5 and args["API Name"] == "cudaLaunchKernel"
    assert not trace.report.issues


def test_columns_say_what_a_table_is_and_not_the_prose_above_it() -> None:
    trace = sample("api-in-the-prose-above-kernels.md")
    assert trace.summaries[["name", "kind"]].values.tolist() == [
        ["gemm", "kernel"],
        ["act", "kernel"],
        ["cudaLaunchKernel", "api"],
    ]


def test_times_that_no_heading_gives_a_unit(tmp_path: Path) -> None:
    trace = sample("microseconds-that-no-heading-says_cuda_gpu_trace.csv")
    assert trace.events[["ts", "dur"]].values.tolist() == [[1_517_727_052, 1440], [1_540_178_479, 1632]]
    assert trace.events.bytes.isna().all()  # 5.000 of what?
    assert json.loads(trace.events.args.iloc[1])["Bytes"] == 5.0
    head = "Time,Total Time,Instances,Avg,Min,Max,Name\n"
    for cells, total in (
        ("9,31121662,248,125490.6,57473,306210,k", 31_121_662),
        ("9,31.250,2,15.625,1.000,30.250,k", 31_250),
    ):
        (tmp_path / "bare.csv").write_text(head + cells + "\n")
        assert read(tmp_path / "bare.csv").summaries.total.tolist() == [total]
    for cells in ("9,31.1217,248,0.1255,0.0575,0.3062,k", "9,31.125,2,15.5,15,16.125,k", "9,3.1,2,1.5,1.5,1.6,k"):
        (tmp_path / "bare.csv").write_text(head + cells + "\n")
        with pytest.raises(DamagedInput, match="no unit") as error:
            read(tmp_path / "bare.csv")
        assert error.value.path == str(tmp_path / "bare.csv") and error.value.where == "line 1"
        assert "nohdrunit" in str(error.value.remedy)


def test_what_nsys_says_itself_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text(
        "Exporting data to SQLite format...\n"
        "Processing [a.sqlite] with [/x/cuda_api_sum.py] to [/tmp/x.csv]... PROCESSED\n"
        "Processing [a.sqlite] with [/x/vulkan_api_sum.py]... \n\n"
        " ** Vulkan API Summary (vulkan_api_sum):\n\n"
        "Report was successfully run, but no data was returned.\n\n"
        "Note: The shown averages are over all ranks.\n"
        "[4711]  @node17\n"
        "SKIPPED: a.sqlite does not contain NV Tools Extension (NVTX) data.\n\n"
        " ** CUDA API Summary (cuda_api_sum):\n\n"
        " Time (%)  Total Time (ns)  Num Calls  Avg (ns)    Name   \n"
        " --------  ---------------  ---------  --------  --------\n"
        "    100.0             6000          6            cudaFree\n"
    )
    trace = read(tmp_path / "said.txt")
    assert not severe(trace) and trace.report.reader.balanced()
    assert trace.summaries.kind.tolist() == ["note", "note", "api"]
    assert trace.summaries.total.tolist()[2] == 6000


def test_a_name_of_two_lines_does_not_end_a_table(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(
        " Time (%)  Total Time (ns)  Instances    Range  \n"
        " --------  ---------------  ---------  ---------\n"
        "     50.0             1000          1  line one\n"
        "line two \n"
        "     50.0             1000          1  the last \n"
    )
    trace = read(tmp_path / "lines.txt")
    assert trace.summaries.name.tolist() == ["line one", "the last"]
    assert trace.report.issues["unrecognised"].places == [("line 4", "")]


def test_a_pipe_in_a_name_of_a_table_with_corners(tmp_path: Path) -> None:
    rule = "+----------+-----------------+-----------+-------+--------+\n"
    (tmp_path / "pipe.txt").write_text(
        f"{rule}| Time (%) | Total Time (ns) | Instances | Range | Style  |\n{rule}"
        f"|    100.0 |            1000 |         1 | a | b | a|b    |\n{rule}"
    )
    trace = read(tmp_path / "pipe.txt")
    assert trace.summaries[["name", "total"]].values.tolist() == [["a | b", 1000]]
    assert json.loads(trace.summaries.args.iloc[0]) == {"Style": "a|b"}


@pytest.mark.parametrize(
    ("name", "module", "constant"),
    [
        ("json-of-three-reports-amid-nsys-own-words.json", json_items, "CHUNK"),
        ("page-and-raw-table-of-a-summary-and-a-trace.html", documents, "_CHUNK"),
    ],
)
def test_where_the_file_is_read_in_pieces_makes_no_difference(
    name: str, module: object, constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sample(name)
    for size in (64, 65, 71, 100, 333):
        monkeypatch.setattr(module, constant, size)
        part = sample(name)
        assert part.summaries.equals(whole.summaries) and part.events.equals(whole.events)
        assert not severe(part) and part.report.reader.taken == whole.report.reader.taken


def test_an_object_that_is_no_json_is_skipped_and_the_next_one_is_read(tmp_path: Path) -> None:
    good = '  {\n    "Total Time (ns)": 5,\n    "Instances": 1,\n    "Time (%)": 1.0,\n    "Name": "k"\n  }'
    (tmp_path / "bad_sum.json").write_text(f"[\n{good},\n{good.replace(': 5', ': ')},\n{good}\n]\n")
    trace = read(tmp_path / "bad_sum.json")
    assert trace.summaries.total.tolist() == [5, 5]
    assert trace.report.issues["bad-record"].places == [("record 2", "not a JSON object")]
    (tmp_path / "cut_sum.json").write_text(f"[\n{good},\n{good[:60]}")
    trace = read(tmp_path / "cut_sum.json")
    assert len(trace.summaries) == 1 and trace.report.issues["cut"].rows == 1


def said(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a report by another way: the csv and json modules, expressions for HTML."""
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        for row in json.loads(text, parse_float=str):
            yield {key: str(value) for key, value in row.items()}
    elif path.suffix == ".html":
        heads = re.findall(r"<th>(.*)</th>", text)
        for row in re.findall(r"<tr>((?:\s*<td>.*</td>)+)", text):
            yield dict(zip(heads, map(html.unescape, re.findall(r"<td>(.*)</td>", row)), strict=True))
    else:
        yield from csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")


@pytest.mark.skipif(not CORPUS.exists(), reason="the real reports are not at hand (../shared/corpus)")
@pytest.mark.parametrize("fmt", ["tsv", "json", "htable", "hdoc", "table", "column"])
def test_a_real_run_says_the_same_in_every_format(fmt: str) -> None:
    """nsys 2023.4.4 printed one run's reports in all of its formats; CSV is the truth."""
    checked = 0
    for truth in sorted((CORPUS / "csv").glob("*.csv")):
        (path,) = (CORPUS / fmt).glob(f"{truth.stem}.*")
        assert choose(Source(str(path))).name == "nsys-stats"
        one, other = read(truth), read(path)
        assert not severe(one) and not severe(other)
        expected = list(said(truth))
        assert len(one.summaries) == len(other.summaries) == len(expected)
        assert one.summaries[list(FIELDS)].equals(other.summaries[list(FIELDS)])
        assert [name.rstrip("…") for name in other.summaries.name] == one.summaries.name.tolist()
        if fmt in ("tsv", "json", "htable", "hdoc"):
            assert list(said(path)) == expected
        totals = [row["Total Time (ns)"] for row in expected if "Total Time (ns)" in row]
        if totals:
            assert one.summaries.total.tolist() == list(map(int, totals))
        checked += 1
    assert checked == 11
