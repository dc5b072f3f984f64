"""TVM: reports, the debug executor, time evaluators; figures are computed here from the sample's text."""

from __future__ import annotations

import csv
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.trace import read
from ktrace.trace.trace import Trace

JSON = SAMPLES / "tvm" / "report-of-two-devices-with-counters.json"
TABLE = SAMPLES / "tvm" / "table-with-separated-thousands.txt"


def sample(name: str) -> Trace:
    return read(next((SAMPLES / "tvm").glob(f"{name}*")), "tvm")


def written(tmp_path: Path, text: str, name: str = "run.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_json() -> None:
    calls = json.loads(JSON.read_text("utf-8"), parse_float=Decimal)["calls"][:-1]
    trace = read(JSON)
    rows = trace.summaries
    work = rows[rows.kind != "total"]
    assert list(work.kind) == ["kernel", "kernel", "op", "overhead"]
    assert list(work["name"]) == [call["Name"]["string"] for call in calls]
    assert list(map(Decimal, work.total)) == [call["Duration (us)"]["microseconds"] * 1000 for call in calls]
    assert list(work.percent) == [50, 25, 10, 5] and set(rows["count"]) == {1}
    assert json.loads(work.args[0]) == {
        "Argument Shapes": "float32[1, 64], float32[8, 64]",
        "Hash": "aa11",
        "cuda:::event:inst_executed": 4096,
        "Arithmetic Intensity": 0.5,
    }
    assert json.loads(work.args[2]) == {"Device": "cpu0"} and work.device.isna()[2]
    totals = rows[rows.kind == "total"]
    assert list(totals.total) == [125_000, 120_000] and totals.device.iloc[0] == 0
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert list(devices["name"]) == ["cuda0"] and json.loads(devices.facts.iloc[0]) == {"api": "cuda"}
    assert '"configuration":{"Executor":"VM","Number of threads":4}' in str(list(trace.catalog.facts))
    assert trace.report.issues["bad-record"].places[0][0] == "calls element 5"


def test_json_may_be_printed_prettily_and_lack_the_configuration(tmp_path: Path) -> None:
    document = json.loads(JSON.read_text("utf-8"))
    del document["configuration"]
    path = written(tmp_path, json.dumps(document, indent=2), "pretty.json")
    assert choose(Source(str(path))).name == "tvm"
    assert list(read(path).summaries.total) == list(read(JSON).summaries.total)


def test_bare_nan_and_inf_are_repaired(tmp_path: Path) -> None:
    """C++ writes nan where the total is 0."""
    call = (
        '{"Name":{"string":"nan"},"Duration (us)":{"microseconds":%s},"Percent":{"percent":%s},"More":{"ratio":-inf}}'
    )
    text = '{"calls":[' + ",".join(call % figures for figures in (("1.5", "nan"), ("-nan", "1"), ("2", "inf"))) + "]}"
    trace = read(written(tmp_path, text, "a.json"), "tvm")
    rows = trace.summaries
    assert list(rows["name"]) == ["nan"] * 2 and list(rows.total) == [1500, 2000]
    assert [json.loads(args) for args in rows.args] == [
        {"Percent": "NaN", "More": "-Infinity"},
        {"Percent": "Infinity", "More": "-Infinity"},
    ]
    assert len(trace.report.issues["json-repair"].places) == 6
    assert trace.report.issues["bad-record"].rows == 1


def test_arguments_of_unknown_types_are_kept(tmp_path: Path) -> None:
    text = '{"calls":[{"Name":{"string":"a"},"Duration (us)":{"microseconds":1},"more":{"a":[1.5, {"b":1e400}]}}]}'
    rows = read(written(tmp_path, text, "a.json"), "tvm").summaries
    assert json.loads(rows.args[0]) == {"more": {"a": [1.5, {"b": "1E+400"}]}}


def test_csv() -> None:
    path = next((SAMPLES / "tvm").glob("*.csv"))
    cells = list(csv.DictReader(path.open(encoding="utf-8")))[:2]
    trace = read(path)
    rows = trace.summaries
    assert list(rows["name"]) == [row["Name"] for row in cells] == ["fused_nn_dense", "shape, func"]
    assert list(map(Decimal, rows.total)) == [Decimal(row["Duration (us)"]) * 1000 for row in cells]
    assert list(rows.kind) == ["kernel", "op"] and rows.device[0] == 1
    assert list(rows.percent) == [75.0125, 24.9875]
    assert json.loads(rows.args[0]) == {"Argument Shapes": "float32[1, 64], float32[8, 64]", "Hash": "aa11"}
    assert json.loads(rows.args[1]) == {"Device": "cpu0"}
    assert trace.report.issues["bad-record"].places == [("line 4", "no name or no duration")]


def test_a_table() -> None:
    trace = read(TABLE)
    rows = trace.summaries
    assert list(rows["name"]) == [
        *("fused_nn_conv2d_add µ", "fused with blanks", "vm.builtin.reshape", "Sum", "Total", "Total"),
    ]
    assert list(rows.kind) == ["kernel", "kernel", "overhead", "total", "total", "total"]
    assert list(rows.total[:4]) == [1_234_567_890, 765_432_110, 500, 2_000_000_500]
    assert rows.total[:3].sum() == rows.total[3] and list(rows["count"]) == [1200, 7, 1, 1208, 1, 1]
    assert list(rows.percent.dropna()) == [61.73, 38.27, 0, 100]
    assert list(rows.device.dropna()) == [1, 1, 1]
    assert json.loads(rows.args[0]) == {
        "Argument Shapes": "float32[1, 3, 8, 8], float32[4, 3, 1, 1]",
        "Hash": "aa11",
        "layout": "NCHW",
    }
    assert json.loads(rows.args[1]) == {"Argument Shapes": "float32[4]", "Hash": "bb22"}
    assert '"configuration":{"Number of threads":"2","Executor":"Graph"}' in str(list(trace.catalog.facts))
    assert trace.report.issues["unrecognised"].places == [("line 1", "")]


@pytest.mark.parametrize("marks", [".,", "'."])
def test_thousands_of_another_locale(tmp_path: Path, marks: str) -> None:
    swap = str.maketrans({",": marks[0], ".": marks[1]})
    figure = re.compile(r"\b\d{1,3}(?:,\d{3})*\.\d\d\b|\b\d,\d{3}\b")
    text = figure.sub(lambda found: found[0].translate(swap), TABLE.read_text("utf-8"))
    assert f"1{marks[0]}234{marks[0]}567{marks[1]}89" in text and f"1{marks[0]}208" in text
    rows = read(written(tmp_path, text), "tvm").summaries
    assert list(rows.total[:4]) == [1_234_567_890, 765_432_110, 500, 2_000_000_500]
    assert list(rows["count"]) == [1200, 7, 1, 1208, 1, 1]


def test_the_debug_executor() -> None:
    trace = sample("debug")
    rows = trace.summaries
    nodes = rows[rows.kind == "op"]
    assert list(nodes["name"]) == ["fused_conv", "fused_split", "fused_add"]
    assert list(nodes.total) == [1_300_000, 150_000, 50_000] and list(nodes.percent) == [86.667, 10, 3.333]
    assert nodes.total.sum() == rows[rows.kind == "total"].total.sum() == 1_500_000
    assert json.loads(nodes.args[0]) == {
        **{"Ops": "fused_conv", "Shape": "(1, 8)", "Inputs": 2, "Outputs": 1},
        "Measurements(us)": "[1250.0, 1350.0]",
    }
    assert trace.report.issues["folded"].places == [("line 5", "another output of the same node")]
    assert trace.report.reader.removed["folded"] == 1


def test_time_evaluators() -> None:
    rows = sample("debug").summaries.query("kind == 'metric'")
    assert list(rows["name"]) == ["Execution time"] * 2 and list(rows.avg) == [1_625_000, 1_250_000]
    assert list(rows["max"]) == [2e6, 2e6] and list(rows["min"]) == [1.5e6, 1e6] and list(rows.stddev) == [250_000] * 2
    assert rows["median"].iloc[0] == 1.5e6 and rows["median"].isna().iloc[1]


def test_equal_nodes_with_one_output_are_both_kept(tmp_path: Path) -> None:
    text = (
        "Node Name  Ops  Time(us)  Time(%)  Shape  Inputs  Outputs  \n"
        "---------  ---  --------  -------  -----  ------  -------  \n"
        "a          f    2.5       50.0     (1,)   1       1        \n"
        "a          f    2.5       50.0     (1,)   1       1        \n"
    )
    path = written(tmp_path, text)
    assert choose(Source(str(path))).name == "tvm"
    assert list(read(path).summaries.total) == [2500, 2500]


def test_the_trace_of_the_debug_executor_is_read_as_chrome(tmp_path: Path) -> None:
    events = [
        {"ts": ts, "tid": 1, "pid": 1, "ph": phase, "name": name}
        for name, begin, end in (("fused_conv", 0.0, 1300.0), ("fused_add", 1300.0, 1303.4))
        for phase, ts in (("B", begin), ("E", end))
    ]
    path = written(
        tmp_path, json.dumps({"displayTimeUnit": "ns", "traceEvents": events}), "_tvmdbg_execution_trace.json"
    )
    assert choose(Source(str(path))).name == "chrome"
    assert list(read(path).events.dur) == [1_300_000, 3_400]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.json",
            '{"calls":[1,"x",{},{"Name":7},{"Name":{"string":"a"},"Duration (us)":{"microseconds":"1"}}],"x":1}',
        ),
        ("a.json", '{"calls":[{"Name":{"string":"a"},"Duration (us)":{"microseconds":1e999}}],"device_metrics":[]}'),
        ("a.json", '{"device_metrics":{"cuda0":7},"configuration":5,"calls":[{"Name":{"str'),
        ("a.json", '{"calls":[{"Duration (us)":{"microseconds":1.5},"more":{"a":[1.5]}}]}'),
        ("a.csv", "Name,Duration (us),Percent\na\rb,1,2\n"),
        ("a.csv", "Name,Duration (us),Percent\na,1\n,1,2\nb,x,2\nc,nan,3\n"),
        (
            "a.txt",
            "Name  Duration (us)  Percent  Device  Count  \na                 x     1.00    cpu0      1  \nno row\n",
        ),
        ("a.txt", "Execution time summary:\n mean (ms)   max (ms)\n 1\n"),
    ],
)
def test_wrong_values_are_reported(tmp_path: Path, name: str, text: str) -> None:
    trace = read(written(tmp_path, text, name), "tvm")
    assert trace.report.reader.balanced()
    assert len(trace.summaries) == 0
    assert set(trace.report.issues) & {"bad-record", "unrecognised", "cut"}


@pytest.mark.parametrize("name", ["table*", "report-of*"])
def test_utf_16_as_powershell_writes_it(tmp_path: Path, name: str) -> None:
    path = next((SAMPLES / "tvm").glob(name))
    copy = tmp_path / path.name
    copy.write_bytes(path.read_text("utf-8").encode("utf-16"))
    assert choose(Source(str(copy))).name == "tvm"
    assert list(read(copy).summaries.total.dropna()) == list(read(path).summaries.total.dropna())
