"""TensorRT: exports and logs of trtexec; real ones are read by json with Decimal."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

from ktrace.converters.tensorrt import probe
from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.trace import read
from ktrace.trace.trace import Trace

CORPUS = SHARED / "corpus" / "tensorrt"


def real(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus/tensorrt)")
    return path


def sample(name: str) -> Trace:
    return read(next((SAMPLES / "tensorrt").glob(f"{name}*")), "tensorrt")


def written(tmp_path: Path, text: str, name: str = "run.json") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def ns(milliseconds: Any) -> Decimal:
    return Decimal(milliseconds) * 10**6


def test_a_real_profile() -> None:
    path = real("resnet.onnx.engine.profile.json")
    assert choose(Source(str(path))).name == "tensorrt"
    count, *layers = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    rows = read(path).summaries
    assert list(rows["name"]) == [layer["name"] for layer in layers]
    assert sum(map(Decimal, rows.total)) == sum(ns(layer["timeMs"]) for layer in layers) == Decimal("1016832")
    assert list(rows["median"]) == [float(ns(layer["medianMs"])) for layer in layers]
    assert list(rows.percent) == [float(layer["percentage"]) for layer in layers]
    assert set(rows["count"]) == {count["count"]} and set(rows.kind) == {"kernel"} and set(rows.unit) == {"ns"}


def test_real_times() -> None:
    path = real("resnet.onnx.engine.timing.json")
    assert choose(Source(str(path))).name == "tensorrt"
    queries = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    trace = read(path)
    work, calls = (trace.events[trace.events.kind == kind] for kind in ("graph", "api"))
    assert trace.report.reader.taken == len(queries) == len(work) == len(calls) == 3698
    assert len(trace.events) == 2 * len(queries)  # nothing was copied
    assert list(work.dur) == [int(ns(query["computeMs"])) for query in queries]
    assert work.dur.sum() == sum(ns(query["computeMs"]) for query in queries)
    assert list(calls.ts) == [int(ns(query["startEnqMs"])) for query in queries]
    assert list(work.correlation) == list(calls.correlation) == list(range(1, 3699))


def test_real_begins_move_by_less_than_the_printed_digits_and_never_overlap() -> None:
    path = real("resnet.onnx.engine.timing.json")
    queries = json.loads(path.read_text("utf-8"), parse_float=Decimal)
    work = read(path).events.query("kind == 'graph'")
    ends = list(work.ts + work.dur)
    assert all(begin >= end for begin, end in zip(list(work.ts)[1:], ends, strict=False))
    for query, ts, timing in zip(queries, work.ts, work.timing, strict=True):
        begin = Decimal(query["startComputeMs"])
        moved, digit = ts - ns(begin), ns(Decimal(1).scaleb(begin.adjusted() - 5))
        assert 0 <= moved <= digit
        assert (timing == "derived") == (moved > 0)


def test_a_profile_with_quotes_in_names_is_repaired() -> None:
    trace = sample("profile")
    rows = trace.summaries
    assert list(rows.kind) == ["memcpy", *["kernel"] * 4]
    assert rows.copy_kind[0] == "HtoD" and rows.copy_kind[1:].isna().all()
    assert rows["name"][2] == 'conv/"first" + relu' and rows.total[2] == 1_500_000
    assert rows.total.sum() == 2_000_000 and set(rows["count"]) == {8}
    assert trace.report.issues["json-repair"].rows == 0 and len(trace.report.issues["json-repair"].places) == 2
    assert trace.report.issues["bad-record"].rows == 1


def test_a_profile_whose_total_is_zero(tmp_path: Path) -> None:
    text = '[\n  { "count" : 1 }\n, { "name" : "a "b"", "timeMs" : 0, "averageMs" : 0, "percentage" : -nan }\n]'
    for layer in (text, text.replace(' "b"', "")):
        rows = read(written(tmp_path, layer), "tensorrt").summaries
        assert list(rows.total) == [0] and "percent" not in rows.dropna(axis=1)


def test_a_log_of_2019(tmp_path: Path) -> None:
    text = (
        "&&&& RUNNING TensorRT.trtexec # ./trtexec --deploy=x\n"
        "[I] Average over 10 runs is 1.25 ms (host walltime is 1.5 ms, 99% percentile time is 1.75).\n"
    )
    path = written(tmp_path, text, "run.log")
    assert choose(Source(str(path))).name == "tensorrt"
    rows = read(path).summaries.set_index("name")
    assert list(rows.avg) == [1_250_000, 1_500_000, 1_750_000] and set(rows["count"]) == {10}
    assert list(rows.index) == ["GPU latency", "Host latency", "percentile(99%)"]


def test_times_with_copies() -> None:
    trace = sample("times")
    events = trace.events
    assert events.kind.value_counts().to_dict() == {"graph": 5, "api": 4, "memcpy": 5}
    copies = events[events.kind == "memcpy"]
    assert list(copies["name"]) == ["H2D", "D2H", "H2D", "H2D", "D2H"]
    assert set(events["name"]) == {"enqueue", "H2D", "GPU compute", "D2H"}
    assert list(copies.copy_kind) == ["HtoD", "DtoH", "HtoD", "HtoD", "DtoH"]
    assert list(copies.dur) == [250_000, 125_000, 250_001, 500_000, 500_000]
    assert json.loads(copies.args.iloc[2]) == {"h2dMs": 0.250000625}
    assert trace.report.issues["rounded"].rows == 1
    assert trace.report.issues["negative-duration"].rows == 1
    work = events[events.kind == "graph"].reset_index()
    assert list(work.ts) == [500_000, 2_500_000, 1_250_130_000, 1_252_144_000, 1_270_500_000]
    assert list(work.timing) == ["measured"] * 3 + ["derived", "measured"]
    assert json.loads(work.args[3]) == {"latencyMs": 2.008, "startComputeMs": 1252.14}
    assert json.loads(work.args[4]) == {"latencyMs": 2, "endToEndMs": 2.25}
    assert set(events[events.kind != "api"].device) == {0}


def test_a_true_overlap_stays(tmp_path: Path) -> None:
    """Two inference streams: the second query begins while the first one computes."""
    query = '{ "startEnqMs" : %s, "endEnqMs" : %s, "startComputeMs" : %s, "computeMs" : 2 }'
    text = "[\n" + "\n, ".join(query % (begin, begin + 1, begin + 1) for begin in (1, 1.5)) + "\n]"
    work = read(written(tmp_path, text), "tensorrt").events.query("kind == 'graph'")
    assert list(work.ts) == [2_000_000, 2_500_000] and set(work.timing) == {"measured"}


def test_layers_without_times() -> None:
    trace = sample("layers")
    rows = trace.summaries
    assert set(rows.kind) == {"note"} and list(rows.stream.dropna()) == [0, 1]
    assert rows.cat[1] == "CaskConvolution" and rows["name"][2] == "softmax"
    args = json.loads(rows.args[1])
    assert (
        args["TacticName"] == "sm80_xmma_invented_tilesize64x64" and args["Scale"] == 0.1 and args["Kernel"] == [3, 3]
    )
    assert any('"bindings":["x","y"]' in str(facts) for facts in trace.catalog.facts)


def test_a_folder_of_one_run() -> None:
    folder = SAMPLES / "tensorrt" / "a-folder-of-one-run"
    assert choose(Source(str(folder))).name == "tensorrt"
    trace = read(folder)
    rows = trace.summaries
    assert list(rows["name"]) == ["conv + relu", "pool", "pool", "never measured"]
    assert list(rows.kind) == ["kernel"] * 3 + ["note"] and list(rows.total[:3]) == [1_500_000, 250_000, 250_000]
    assert list(rows.cat) == ["CaskConvolution", "CudaPooling", "CudaPooling", "NoOp"]
    assert list(rows.stream[:3]) == [0, 0, 1]
    assert [json.loads(args) for args in rows.args[:3]] == [
        {"TacticName": "sm80_xmma_invented_tilesize64x64"},
        {"WindowSize": [2, 2]},
        {"WindowSize": [3, 3]},
    ]
    assert trace.events.query("kind == 'graph'").dur.sum() == 1_000_000
    report = trace.report
    assert report.reader.removed["folded"] == 3 + 1  # descriptions, and the count of the profile
    assert report.issues["no-trace"].places == [("small.engine.profile.metadata.json", "")]


def test_a_folder_of_several_runs_is_not_one_trace(tmp_path: Path) -> None:
    for run in ("a", "b"):
        for what in ("graph", "profile"):
            (tmp_path / f"{run}.{what}.json").write_text('{"Layers": ["x"], "Bindings": []}', "utf-8")
    assert probe(Source(str(tmp_path)).sample()) is None


def test_a_log_of_today() -> None:
    trace = sample("log-of-tensorrt-10")
    rows = trace.summaries
    layers = rows[rows.kind == "kernel"]
    assert list(layers["name"])[1:] == ["conv + relu", "fc 1 2.5"]
    assert (layers.total.sum(), layers.avg.sum(), layers.percent.sum()) == (320e6, 8e6, 100)
    assert set(layers["count"]) == {40} and set(layers.device) == {1}
    (total,) = rows[rows.kind == "total"].itertuples()
    assert (total.name, total.total, total.median) == ("Total", 320e6, 8e6)
    metrics = rows[rows.kind == "metric"].set_index("name")
    latency = metrics.loc["Latency"]
    assert [latency[key] for key in ("min", "max", "avg", "median", "p95", "p99")] == [
        9e6,
        12e6,
        9.5e6,
        9.25e6,
        11e6,
        12e6,
    ]
    assert json.loads(latency.args) == {"percentile(90%) (ns)": 10e6}
    assert (metrics.loc["Throughput"].value, metrics.loc["Throughput"].unit) == (80, "qps")
    assert metrics.loc["Total Host Walltime"].value == 5e8
    assert (metrics.loc["Timing trace"].total, metrics.loc["Timing trace"]["count"]) == (5e8, 40)
    assert metrics.loc["enqueue"].parent == metrics.loc["GPU latency"].id and metrics.loc["enqueue"].avg == 125_000
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert list(devices.device) == [0, 1] and set(devices["name"]) == {"Invented GPU"}
    facts = {"uuid": "GPU-1", "api": "cuda", "sm_count": 16, "memory": 4 << 30}
    assert json.loads(devices.facts.iloc[1]) == facts
    assert trace.report.issues["capture-warning"].rows == 1
    assert trace.report.issues["unrecognised"].places == [("line 17", "")]


def test_a_log_of_2020() -> None:
    rows = sample("log-of-tensorrt-7").summaries
    layers = rows[rows.kind == "kernel"]
    assert list(layers["name"]) == ["conv 1 relu", "softmax"] and list(layers.total) == [2.1e9, 7e8]
    metrics = rows[rows.kind == "metric"].set_index("name")
    assert list(metrics.index) == [
        *("GPU latency", "Host latency", "end to end", "enqueue", "throughput", "walltime", "Host Latency"),
        *("End to end", "Enqueue Time", "total compute time", "GPU Compute"),
    ]
    assert [metrics.loc["End to end"][key] for key in ("min", "max", "avg", "p99")] == [7e6, 9e6, 8e6, 9e6]
    assert metrics.loc["walltime"].value == 3.5e9 and metrics.loc["Enqueue Time"]["median"] == 500_000


@pytest.mark.parametrize(
    "text",
    [
        "=== Profile (2 iterations ) ===\n   Time(ms)     Avg.(ms)   Time(%)   Layer\n  1.00  0.5000  100.0   k\n",
        "> [01/02/2033-04:05:06] [I] === Profile (2 iterations ) ===\n"
        "> [01/02/2033-04:05:06] [I] Layer   Time (ms)   Avg. Time (ms)   Time %\n"
        "> [01/02/2033-04:05:06] [I]     k        1.00             0.50    100.0\n",
    ],
)
def test_a_pasted_table(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, "Notes\n\n" + text + "\nthanks", "note.txt")
    assert choose(Source(str(path))).name == "tensorrt"
    rows = read(path).summaries
    assert list(rows["name"]) == ["k"] and list(rows.total) == [1e6] and list(rows.avg) == [5e5]


def test_a_log_without_times_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=x\n", "run.log")
    with pytest.raises(KtraceError, match="trtexec without any times") as caught:
        choose(Source(str(path)))
    assert "--dumpProfile" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "text",
    [
        '[ { "count" : 2 }, { "name" : "a", "timeMs" : "x", "averageMs" : true } ]',
        '[ { "count" : 2 }, { "name" : 7, "timeMs" : 1 }, null, [], "x", 5 ]',
        '[ { "count" : 2 }, { "name" : "a", "timeMs" : 1e999 }, { "name" : "b", "timeMs" : NaN } ]',
        '[ { "startEnqMs" : 1e40, "endEnqMs" : 2, "startComputeMs" : 1, "computeMs" : 1 } ]',
        '[ { "startEnqMs" : "1", "endEnqMs" : 2, "startComputeMs" : 1, "computeMs" : 1 } ]',
        '{"Layers": [{"LayerType": "x"}, 7, {"Name": ""}], "Bindings": [{}], "more": {"a": 1}}',
        '[ { "count" : 1 }, { "name" : ' + "[" * 5000,
    ],
)
def test_wrong_values_are_reported(tmp_path: Path, text: str) -> None:
    trace = read(written(tmp_path, text), "tensorrt")
    report = trace.report
    assert report.reader.balanced()
    assert sum(report.rows[record] for record in ("events", "summaries")) == 0
    assert report.reader.removed.total() == report.reader.taken > 0
    assert set(report.issues) & {"bad-record", "time-range", "unrecognised", "cut"}


@pytest.mark.parametrize("name", ["log-of-tensorrt-10*", "profile*"])
def test_utf_16_as_powershell_writes_it(tmp_path: Path, name: str) -> None:
    path = next((SAMPLES / "tensorrt").glob(name))
    copy = tmp_path / path.name
    copy.write_bytes(path.read_text("utf-8").encode("utf-16"))
    assert choose(Source(str(copy))).name == "tensorrt"
    assert list(read(copy).summaries.total.dropna()) == list(read(path).summaries.total.dropna())
