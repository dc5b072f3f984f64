"""OpenVINO: reports and logs of benchmark_app; real ones are read by csv, json, re and xml.etree with Decimal."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

from ktrace.errors import DamagedInput, KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.trace import read
from ktrace.trace.trace import Trace

CORPUS = SHARED / "corpus"


def real(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    return path


def sample(name: str) -> Trace:
    return read(next((SAMPLES / "openvino").glob(f"{name}*")), "openvino")


def written(tmp_path: Path, text: str, name: str = "run.log") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def ns(milliseconds: str) -> Decimal:
    return Decimal(milliseconds) * 10**6


@pytest.mark.parametrize(
    ("name", "layers", "executed", "milliseconds"),
    [
        ("openvino/benchmark_average_counters_report.csv", 18, 11, "0.225"),
        ("openvino/benchmark_detailed_counters_report.csv", 36, 20, "0.186"),
        ("made/openvino/detailed/benchmark_detailed_counters_report.csv", 36, 24, "3.248"),
        ("made/openvino/detailed/benchmark_sorted_report.csv", 12, 12, "1.624"),
    ],
)
def test_real_csv(name: str, layers: int, executed: int, milliseconds: str) -> None:
    path = real(name)
    assert choose(Source(str(path))).name == "openvino"
    separator = "," if "sorted" in name else ";"
    cells = [line.split(separator) for line in path.read_text("utf-8").splitlines()]
    cells = [row for row in cells if len(row) in (6, 7) and row[1].startswith("Status.")]
    rows = read(path).summaries
    found = rows[rows.kind.isin(("op", "note"))]
    assert len(found) == len(cells) == layers
    for row, (_, layer) in zip(cells, found.iterrows(), strict=True):
        args = json.loads(layer.args)
        assert (layer["name"], layer["cat"], args["execType"]) == (row[0], row[2], row[3])
        assert args["cpuTime (ms)"] == float(row[5])
        if row[1] == "Status.EXECUTED":
            assert (layer.kind, layer.total) == ("op", float(ns(row[4])))
        else:
            assert (layer.kind, args["execStatus"], ns(row[4])) == ("note", "NOT_RUN", 0)
    ran = found[found.kind == "op"]
    assert len(ran) == executed and sum(map(Decimal, ran.total)) == ns(milliseconds)
    totals = rows[rows.kind == "total"].total.sum()
    assert abs(totals - ran.total.sum()) <= (5_000 if separator == "," else 0)  # sorted: two decimals of ms


@pytest.mark.parametrize(
    ("folder", "layers", "milliseconds"), [("detailed", 24, ["1.624", "1.624"]), ("json", 3, ["0.011"])]
)
def test_real_logs(folder: str, layers: int, milliseconds: list[str]) -> None:
    path = real(f"made/openvino/{folder}/benchmark_app.log")
    assert choose(Source(str(path))).name == "openvino"
    times = re.findall(r"^\S.*layerType.*realTime \(ms\): (\S+)", path.read_text("utf-8"), re.M)
    trace = read(path)
    rows = trace.summaries
    found = rows[rows.kind.isin(("op", "note"))]
    assert len(found) == len(times) == layers
    assert sum(map(Decimal, found.total.dropna())) == sum(map(ns, times)) == sum(map(ns, milliseconds))
    assert list(rows[rows.kind == "total"].total) == [float(ns(time)) for time in milliseconds]
    assert [list(scope) for scope in rows[rows.kind == "total"].scope] == [
        [f"infer request {number}"] for number in range(len(milliseconds))
    ]
    latency = rows[rows["name"] == "Latency"].iloc[0]
    text = path.read_text("utf-8")
    assert latency["median"] == float(ns(re.search(r"Median: +(\S+) ms", text)[1]))  # type: ignore[index]
    assert latency["max"] == float(ns(re.search(r"Max: +(\S+) ms", text)[1]))  # type: ignore[index]
    assert '"version":"2026.4.1' in str(list(trace.catalog.facts))
    assert trace.report.issues == {}


def test_a_real_log_and_its_csv_agree() -> None:
    folder = real("made/openvino/detailed/benchmark_app.log").parent
    log, table = (
        read(folder / name).summaries.query("kind == 'op'")
        for name in ("benchmark_app.log", "benchmark_detailed_counters_report.csv")
    )
    for number in (0, 1):
        logged, listed = (sorted(rows[rows.table == number].total) for rows in (log, table))
        assert logged == listed and len(logged) == 12


def test_real_json() -> None:
    path = real("made/openvino/json/benchmark_detailed_counters_report.json")
    assert choose(Source(str(path))).name == "openvino"
    nodes = json.loads(path.read_text("utf-8"))["detailed_performance"][0]["nodes"]
    trace = read(path)
    rows = trace.summaries
    assert list(rows["name"]) == [*(node["name"] for node in nodes), "Total"]
    assert list(rows.kind) == ["note", "op", "note", "total"]
    assert list(rows.total.dropna()) == [11_000, 11_000]
    assert trace.report.issues == {}


def test_a_real_runtime_model() -> None:
    path = real("made/openvino/detailed/exec_graph.xml")
    assert choose(Source(str(path))).name == "openvino"
    data = [(layer.get("name"), layer.find("data")) for layer in ET.parse(path).getroot().iter("layer")]
    times = [element.get("execTimeMcs") for _, element in data if element is not None]
    rows = read(path).summaries
    assert list(rows["name"]) == [name for name, _ in data] and len(rows) == len(times) == 37
    measured = [Decimal(time) * 1000 for time in times if time and time.isdigit()]
    assert list(rows.total.dropna()) == [float(time) for time in measured] and sum(measured) == 1_742_000
    assert list(rows.kind).count("op") == len(measured) == 16


@pytest.mark.parametrize("name", ["detailed/benchmark_report.csv", "json/benchmark_report.json"])
def test_real_reports_of_the_run_are_named(name: str) -> None:
    with pytest.raises(KtraceError, match="without its layers") as caught:
        choose(Source(str(real(f"made/openvino/{name}"))))
    assert "detailed_counters" in str(caught.value.remedy)


def test_csv_of_the_cpp_program() -> None:
    rows = sample("average-of-cpp").summaries
    assert list(rows.kind) == ["note", "kernel", "note", "op", "total"]
    assert list(rows["name"])[1] == "conv;left" and list(rows.total.dropna()) == [500_000, 250_000, 750_000]
    assert json.loads(rows.args[2]) == {"execStatus": "OPTIMIZED_OUT", "execType": "undef", "cpuTime (ms)": 0.0}


def test_an_average_with_one_node_is_reported() -> None:
    report = sample("average-with").report
    assert report.issues["incomplete-report"].rows == 1 and report.reader.taken == 3


def test_json_of_two_requests() -> None:
    trace = sample("detailed-of")
    rows = trace.summaries
    assert list(rows[rows.kind == "op"].total) == [125_000, 25_000, 135_000]
    assert [next(iter(scope)) for scope in rows.scope] == ["infer request 0"] * 4 + ["infer request 1"] * 3
    assert trace.report.issues["bad-record"].places == [
        ("detailed_performance element 2, node 3", "no name, no status or no time")
    ]


def test_json_of_the_cpp_program(tmp_path: Path) -> None:
    """Keys in alphabetical order, numbers instead of texts, a share in the sorted one."""
    node = (
        '{"%%": 25.5, "cpu_time": 0.5, "exec_type": "%s", "name": "k", "node_type": "T", "real_time": 1.5,'
        ' "status": "%s"}'
    )
    nodes = ", ".join(node % about for about in (("jit", "EXECUTED"), ("x__f16", "EXECUTED"), ("u", "NOT_RUN")))
    average = f'{{"nodes": [{nodes}], "total_cpu_time": 1, "total_real_time": 3}}'
    text = f'{{"avg_performance": {average}, "report_type": "average"}}'
    path = written(tmp_path, text, "run.json")
    assert choose(Source(str(path))).name == "openvino"
    trace = read(path)
    rows = trace.summaries
    assert list(rows.kind) == ["op", "kernel", "note", "total"] and list(rows.total.dropna()) == [1.5e6, 1.5e6, 3e6]
    assert rows.percent[0] == 25.5 and json.loads(rows.args[0]) == {"execType": "jit", "cpu_time": 0.5}
    assert trace.report.issues == {}


def test_a_log_of_2021() -> None:
    trace = sample("log-of-2021")
    rows = trace.summaries
    assert list(rows.kind) == ["note", "op", "op", "total", "metric", "metric"]
    assert (
        list(rows.total.dropna()) == [125_000, 25_000, 150_000] and rows["name"][1] == "conv/second/with/a/long/na..."
    )
    assert json.loads(rows.args[1]) == {"execType": "jit_avx512_FP32", "cpu": 100.0}
    assert '"Full device name":"Invented CPU"' in str(list(trace.catalog.facts))


def test_a_type_may_leave_no_blank_before_the_time(tmp_path: Path) -> None:
    text = "c  EXECUTED  layerType: ALayerWithALongNamerealTime: 25         cpu: 20         execType: ref_any_FP32\n"
    path = written(tmp_path, text + "Total time: 25 microseconds\n")
    rows = read(path, "openvino").summaries
    assert (rows.cat[0], list(rows.total)) == ("ALayerWithALongName", [25_000, 25_000])


def test_a_log_of_today() -> None:
    trace = sample("log-of-two")
    rows = trace.summaries
    assert list(rows[rows.kind == "op"].total) == [750_000, 250_000, 500_000, 250_000]
    assert rows["name"][1] == "soft max" and list(rows.percent.dropna()) == [75, 25, 100, 100]
    latency = rows[rows["name"] == "Latency"].iloc[0]
    assert (latency.avg, latency["min"], latency["max"]) == (2e6, 1.5e6, 3e6)
    assert json.loads(latency.args) == {"90 percentile (ns)": 2.5e6}
    rate = rows[rows["name"] == "Throughput"].iloc[0]
    assert (rate.value, rate.unit, rate.metric) == (500, "FPS", "throughput")
    assert trace.report.issues["cut"].places == [("the end", "the layers have no total")]
    assert trace.report.issues["unrecognised"].places == [("line 20", "")]


def test_layers_of_a_gpu_are_kernels(tmp_path: Path) -> None:
    text = (
        "[ INFO ]   EXECUTION_DEVICES: ['GPU.0']\n[ INFO ] Performance counts for 0-th infer request\n"
        "c  Status.EXECUTED  layerType: Conv  execType: jit:ir  realTime (ms): 1.0  cpuTime (ms): 0.5\n"
        "Total time:     1.0 milliseconds\n"
    )
    assert list(read(written(tmp_path, text)).summaries.kind) == ["kernel", "total"]


def test_a_sorted_csv() -> None:
    trace = sample("sorted")
    rows = trace.summaries
    assert list(rows["name"]) == ["conv, left", "softmax", "x", "Total time", "Total CPU time"]
    assert list(rows.percent.dropna()) == [75, 25] and list(rows.total.dropna()) == [750_000, 250_000, 1_000_000]
    assert rows.value[4] == 750_000 and trace.report.issues == {}


def test_a_document_with_entities_is_refused(tmp_path: Path) -> None:
    text = '<!DOCTYPE net [<!ENTITY a "aaaa">]><net><layer name="&a;"><data execTimeMcs="1"/></layer></net>'
    with pytest.raises(DamagedInput, match="document type"):
        read(written(tmp_path, text, "graph.xml"), "openvino")


HEADINGS = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
NODES = '{"avg_performance": {"nodes": [%s]}}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", HEADINGS + "x;EXECUTED;a;b\nx;WHAT;a;b;1;1\n"),
        ("a.csv", HEADINGS + ";EXECUTED;a;b;1;1\nx;EXECUTED;a;b;nan;1\n"),
        ("a.csv", HEADINGS.replace(";", ",") + "x\ry,Status.EXECUTED,a,b,1,1\n"),
        ("a.csv", "layerName|execStatus\nx|1\n"),
        ("a.json", NODES % '7, {}, {"name": 1}, {"name": "a", "status": "EXECUTED", "real_time": []}'),
        ("a.json", '{"detailed_performance": [1, "x", {"nodes": null}], "other": {}}'),
        ("a.json", '{"avg_performance": {"nodes": [{"name": "a", "status": "EXECUTED", "real_time": 1e999}]'),
        ("a.xml", '<net><layer name="a"/><layer/><layer name="b"><data execTimeMcs="inf"/></layer><layer name="c">'),
        ("a.xml", "<net><layers><</layers>"),
        (
            "a.log",
            "a EXECUTED layerType: x execType: y realTime (ms): z cpuTime (ms): 1\n layerType: \nx layerType: y\n",
        ),
    ],
)
def test_wrong_values_are_reported(tmp_path: Path, name: str, text: str) -> None:
    trace = read(written(tmp_path, text, name), "openvino")
    assert trace.report.reader.balanced()
    assert len(trace.summaries) == 0
    assert set(trace.report.issues) & {"bad-record", "unrecognised", "cut"}


@pytest.mark.parametrize("name", ["log-of-two*", "detailed*"])
def test_utf_16_as_powershell_writes_it(tmp_path: Path, name: str) -> None:
    path = next((SAMPLES / "openvino").glob(name))
    copy = tmp_path / path.name
    copy.write_bytes(path.read_text("utf-8").encode("utf-16"))
    assert choose(Source(str(copy))).name == "openvino"
    assert list(read(copy).summaries.total.dropna()) == list(read(path).summaries.total.dropna())


def test_the_bytes_of_a_runtime_model_are_those_of_its_layers_and_of_what_is_around_them(tmp_path: Path) -> None:
    text = (SAMPLES / "openvino/runtime-model.xml").read_text()
    begin, end = text.index("<layer id"), text.rindex("</layer>") + len("</layer>")
    layers = end - begin - 3 * len("\n\t\t")
    fault = text.replace("</layers>", "</layer>")
    for changed, skipped in (
        (text, []),
        (text.replace("<edges>", "lost <edges>"), ["\tlost "]),
        (text[: text.index("<edges>") + 3], ["\t<ed"]),
        (fault, [fault[fault.index("\t</layer>\n\t<edges>") :]]),
    ):
        account = read(written(tmp_path, changed, "graph.xml"), "openvino").report.bytes
        assert account.balanced()
        assert (account.size, account.read) == (len(changed), layers)
        assert [changed[piece.start : piece.end] for piece in account.ranges] == skipped


def test_what_follows_a_fault_in_a_runtime_model_is_said_to_be_lost_and_not_to_be_cut(tmp_path: Path) -> None:
    text = (SAMPLES / "openvino/runtime-model.xml").read_text()
    second, data = text.index("<layer", text.index("</layer>")), text.rindex("<data")
    between = text[:second] + "a < b " + text[second:]
    lost = len(text) - second + len("< b ") - 1
    inside = text[:data] + "a < b " + text[data:]
    for changed, issues in (
        (between, [f"not well-formed (invalid token); nothing of the {lost:,} bytes from there on is read"]),
        (inside, ["not well-formed (invalid token); nothing of the", "without a time"]),
    ):
        report = read(written(tmp_path, changed, "graph.xml"), "openvino").report
        places = [detail for _, detail in report.issues["bad-record"].places]
        assert [detail[: len(wanted)] for detail, wanted in zip(places, issues, strict=True)] == issues
        assert "cut" not in report.issues
    cut = read(written(tmp_path, text[: second + 9], "graph.xml"), "openvino").report
    assert [detail for _, detail in cut.issues["cut"].places] == ["unclosed token"]
    assert "bad-record" not in cut.issues


def test_a_log_of_2022_has_times_of_python(tmp_path: Path) -> None:
    layer = "{:<30}Status.EXECUTEDlayerType: Convert            realTime: {}cpu: {} execType: jit_FP32  "
    text = "[ INFO ] Performance counts for 0-th infer request\n"
    text += layer.format("conv_1", "0:00:00.000246", "0:00:00.000246") + "\n"
    text += layer.format("conv_2", "0:01:02   ", "0:00:00   ") + "\n"
    rows = read(written(tmp_path, text), "openvino").summaries
    assert list(zip(rows.name, rows.total, strict=True)) == [("conv_1", 246_000), ("conv_2", 62_000_000_000)]
