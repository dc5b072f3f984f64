"""DeepSpeed's reports, timers and operations: figures of the samples' text, computed here without ktrace."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from canonical_rows import known_rows
from conftest import SAMPLES

from ktrace.errors import KtraceError
from ktrace.trace import read

FOLDER = SAMPLES / "deepspeed"
WHOLE, NO_TIMES, OLD = (
    FOLDER / name
    for name in ("whole-log-of-0.17.log", "without-times-since-0.18.log", "words-of-0.3.16-quoted-cut.txt")
)
PREFIXES = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "B": 10**9,
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
}


def measured(text: str) -> Decimal:
    """A figure such as 1.6 GMACs."""
    number, _, unit = text.partition(" ")
    return Decimal(number) * PREFIXES[re.sub("(MACs|FLOPS|s)$", "", unit)]


def printed_modules(path: Path) -> list[list[Decimal]]:
    """params, MACs, latency (s), FLOPS of each line that has them."""
    form = re.compile(
        r"(\d\S*(?: [kKMGBmu])?)(?: =|,) \S+% Params, (.*?)(?: =|,) \S+% MACs, (.*?)(?: =|,) \S+% latency, (\S+ \w+)"
    )
    return [[measured(figure) for figure in found.groups()] for found in form.finditer(path.read_text())]


def rows_in(path: Path, record: str = "summaries") -> list[dict[str, Any]]:
    """The rows of a record, with their arguments read."""
    return [row | ({"args": json.loads(row["args"])} if "args" in row else {}) for row in known_rows(path, record)]


def rows_of(path: Path, kind: str, **columns: Any) -> list[dict[str, Any]]:
    rows = rows_in(path)
    return [row for row in rows if row["kind"] == kind and all(row.get(key) == value for key, value in columns.items())]


def times(row: dict[str, Any]) -> float:
    """The figure of one module: the average of several that are equal."""
    return row["avg"] if "avg" in row else row.get("total", row.get("value"))


@pytest.mark.parametrize("path", [WHOLE, OLD], ids=lambda path: path.name)
def test_modules_have_the_figures_of_their_lines(path: Path) -> None:
    modules = [row for row in rows_of(path, "range") if "type" in row.get("args", {})]
    printed = printed_modules(path)
    assert len(modules) == len(printed) > 2
    assert [times(row) for row in modules] == [float(figures[2] * 10**9) for figures in printed]
    for place, metric in ((0, "params"), (1, "MACs"), (3, "FLOPS")):
        below = {row["parent"]: times(row) for row in rows_of(path, "metric", metric=metric) if "parent" in row}
        assert [below[row["id"]] for row in modules] == [float(figures[place]) for figures in printed]


def test_modules_have_their_place_in_the_model() -> None:
    modules = {row["name"]: row for row in rows_of(WHOLE, "range") if "type" in row.get("args", {})}
    assert list(modules) == [
        *("TinyNet", "TinyNet.embed", "TinyNet.layers.0", "TinyNet.layers.0.mlp", "TinyNet.layers.1"),
        *("TinyNet.layers.1.mlp", "TinyNet.drops.0-2", "TinyNet.head"),
    ]
    inner = modules["TinyNet.layers.0.mlp"]
    assert (inner["scope"], inner["args"]["type"], inner["run"]) == (
        ["TinyNet", "layers", "0", "mlp"],
        "Linear",
        "step 2",
    )
    assert (inner["percent"], inner["unit"]) == (40.0, "ns")
    alike = modules["TinyNet.drops.0-2"]
    assert (alike["count"], alike["avg"], alike["total"]) == (3, 40_000, 120_000)


def test_the_summary_adds_up() -> None:
    times = {row["name"]: row["total"] for row in known_rows(WHOLE, "summaries") if row["name"].endswith(" latency")}
    assert times["iter latency"] == sum(times[name] for name in ("fwd latency", "bwd latency", "step latency")) == 61e6
    assert [row["name"] for row in rows_of(WHOLE, "total", run="step 2")] == ["iter latency"]
    metrics = {
        row["name"]: (row["value"], row["unit"]) for row in rows_of(WHOLE, "metric") if row["name"] == row["metric"]
    }
    assert metrics["params of model"] == (3_500_000, "count")
    assert metrics["params of model"][0] == (
        metrics["non-expert params of model"][0] + metrics["expert params of model"][0]
    )
    assert metrics["fwd flops per GPU"] == (8.1e9, "FLOP")
    assert metrics["fwd FLOPS per GPU"] == (8.1e9 / (times["fwd latency"] / 1e9), "FLOP/s")
    assert metrics["fwd MACs per GPU"] == (4e9, "MAC")
    assert metrics["samples/second"] == (131.15, "samples/s")
    facts = [json.loads(row["facts"]) for row in read(WHOLE).to_arrow()["catalog"].to_pylist() if row["facts"]]
    told = {key: value for row in facts for key, value in row.items()}
    assert (told["world_size"], told["batch size per GPU"], told["version"]) == (2, 4, "0.17.5")
    assert told["expert tensor parallelism enabled"] == "False"


def test_without_an_engine_lines_of_the_model_say_nothing() -> None:
    assert not [row for row in known_rows(NO_TIMES, "summaries") if row["name"].endswith("of model")]
    assert [row["name"] for row in rows_of(WHOLE, "metric") if row["name"].endswith("flops of model")]


def test_the_words_of_0_3_16() -> None:
    rows = {row["name"]: row for row in known_rows(OLD, "summaries") if "scope" not in row and "track" not in row}
    assert {name: (row.get("value", row.get("total")), row["unit"]) for name, row in rows.items()} == {
        "Number of parameters": (61_500, "count"),
        "Number of multiply-accumulate operations (MACs)": (500_000, "MAC"),
        "Number of floating point operations": (1_000_000, "FLOP"),
        "Latency": (2_500_000, "ns"),
        "Floating point operations per second(FLOPS)": (4e8, "FLOP/s"),
    }


@pytest.mark.parametrize(("path", "depth"), [(WHOLE, "depth 1"), (OLD, "depth 1")], ids=["new", "old"])
def test_the_greatest_at_a_depth(path: Path, depth: str) -> None:
    text = path.read_text()
    part = text.partition("depth 1:")[2] if path == WHOLE else text
    for what, metric in (("params", "params"), ("MACs", "MACs"), ("latency", "duration")):
        line = next(line for line in part.splitlines() if re.search(rf"{what}(?: +-| at).*{{", line))
        expected = {name: measured(figure) for name, figure in re.findall(r"'(\w+)': '([^']+)'", line)}
        rows = [row for row in known_rows(path, "summaries") if row.get("scope") == [depth] and row["metric"] == metric]
        scale = 10**9 if metric == "duration" else 1
        assert {row["name"]: times(row) for row in rows} == {name: float(x * scale) for name, x in expected.items()}


def test_a_latency_that_is_the_time_of_day_is_no_time() -> None:
    root, first, *_ = (row for row in rows_of(NO_TIMES, "range") if "type" in row.get("args", {}))
    assert root["args"]["latency"] == "1.74 Gs"
    assert not {"total", "percent", "unit"} & root.keys()
    assert (first["name"], first["total"], first.get("percent")) == ("Sequential.0", 1_500_000, None)
    assert [row["name"] for row in rows_of(NO_TIMES, "metric", metric="FLOPS")] == ["Sequential.0", "Sequential.1"]
    assert all("latency" not in row.get("args", {}) for row in rows_of(WHOLE, "range"))


def test_timers_are_the_figures_of_their_lines() -> None:
    expected = []
    for line in WHOLE.read_text().splitlines():
        stamp, _, timers = line.partition("time (ms) | ")
        if timers:
            moment = datetime.strptime(stamp[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=timezone.utc)
            at = (int(moment.timestamp()) * 1000 + moment.microsecond // 1000) * 10**6
            expected += [(name, float(ms) * 1e6, at) for name, ms in re.findall(r"([\w]+): ([\d.]+)", timers)]
    timers = rows_of(WHOLE, "range", track="rank 0")
    assert [(row["name"], row["total"], row["ts"]) for row in timers] == expected
    fwd = [row["total"] for row in timers if row["name"] == "fwd_microstep"]
    assert sum(fwd) == timers[-5]["total"] == 20e6
    assert [row["name"] for row in timers if row.get("scope") == ["fwd"]] == ["fwd_moe", "1st_a2a", "2nd_a2a", "top_k"]
    assert {detail for _, detail in read(WHOLE).report.issues["local-time"].places} == {"2025-03-04 09:30:10"}


def test_timers_without_times_keep_their_ranks() -> None:
    timers = [row for row in rows_of(NO_TIMES, "range") if "track" in row]
    assert [(row["track"], row["table"], row["name"], row["total"]) for row in timers] == [
        ("rank 0", 0, "init_optimizer_state", 250_000),
        *(
            ("rank 0", 1, name, ms * 1e6)
            for name, ms in (("fwd_microstep", 4), ("bwd_microstep", 9), ("step_microstep", 0.02))
        ),
        *(
            ("rank 1", 2, name, ms * 1e6)
            for name, ms in (("fwd_microstep", 4.5), ("bwd_microstep", 8.75), ("step_microstep", 0.03))
        ),
    ]
    assert "local-time" not in read(NO_TIMES).report.issues


def test_steps_and_throughput() -> None:
    events = rows_in(WHOLE, "events")
    steps = [row for row in events if row["kind"] == "instant"]
    assert [(row["name"], row["args"]["step"], row["args"]["skipped"]) for row in steps] == [
        ("step", 1, 0),
        ("step", 10, 1),
    ]
    values = {row["name"]: (row["value"], row["unit"]) for row in events if row["kind"] == "counter"}
    assert values["MemAllocated"] == (1.5 * 2**30, "B")
    assert values["CurrSamplesPerSec"] == (131.25, "samples/s")
    assert values["vm %"] == (38.5, "%")
    speed = next(row for row in events if row["name"] == "CurrSamplesPerSec")
    assert speed["args"] == {"epoch": 0, "micro_step": 20, "global_step": 10}
    assert {row["name"] for row in known_rows(OLD, "events")} == {"SamplesPerSec", "vm percent", "swap percent"}
    without = {
        row["name"]: row.get("value") for row in known_rows(NO_TIMES, "summaries") if row["kind"] in ("metric", "note")
    }
    assert without["CurrSamplesPerSec"] == 640.5
    assert "step" in without
    assert "RunningAvgSamplesPerSec" not in without  # -inf


def test_steps_of_a_pipeline() -> None:
    rows = [row for row in rows_in(NO_TIMES, "summaries") if row.get("args", {}).get("step") in (10, 20)]
    assert [(row["name"], row["value"], row.get("unit")) for row in rows] == [
        ("loss", 5.5508, None),
        ("lm loss", -0.5103, None),  # the third loss is nan
        ("iter time (s)", 936_000_000, "ns"),
        ("samples/sec", 136.706, "samples/s"),
        ("loss", 4.25, None),
        ("iter time (s)", 500_000_000, "ns"),
        ("samples/sec", 256, "samples/s"),
    ]
    assert {row["kind"] for row in rows} == {"metric"}


def test_operations_are_time_where_the_version_measures_it(tmp_path: Path) -> None:
    one = rows_of(WHOLE, "op")
    assert [(row["name"], row["total"], row["count"]) for row in one] == [
        ("all_reduce", 1_250_000, 1),
        ("all_reduce", 750_000, 1),
        ("broadcast | [Caller Func: _broadcast_model]", 500_000, 1),
    ]
    added = [row for row in rows_of(WHOLE, "total") if row["name"] != "iter latency"]
    assert [(row["total"], row["count"]) for row in added] == [(2_000_000, 2), (500_000, 1)]
    least = rows_of(WHOLE, "metric", metric="comm lat")
    assert [(row["value"], row["args"]["Total straggler(ms)"]) for row in least] == [(1_500_000, 0.5), (500_000, 0)]
    table = WHOLE.read_text().partition("Comm. Op")[2]
    path = tmp_path / "table.log"
    for version, kind in (("0.18.2", "op"), ("0.18.3", "metric"), ("0.19.8+cpu", "metric"), ("", "metric")):
        stated = f"[Rank 0] DeepSpeed info: version={version}, git-hash=unknown\n" if version else ""
        path.write_text(f"{stated}Comm. Op{table}")
        rows = [row for row in known_rows(path, "summaries") if row["metric"] != "comm lat"]
        assert [(row["kind"], row.get("total", row.get("value"))) for row in rows] == [(kind, 2e6), (kind, 5e5)]


def test_a_line_within_a_table_leaves_operations_to_their_rows() -> None:
    rows = [row for row in rows_of(NO_TIMES, "metric", metric="latency") if "table" in row]
    assert [(row["name"], row["value"], row["args"]["Count"], row["args"]["Message Size"]) for row in rows] == [
        ("all_reduce", 6_750_000, 3, "40.0 B"),
        ("all_reduce", 9_500_000, 2, "5.05 MB"),
        ("barrier", 1_250_000, 1, "0B"),
    ]


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    skipped = {WHOLE: {"unrecognised"}, NO_TIMES: set(), OLD: {"bad-record", "cut"}}
    for path, kinds in skipped.items():
        report = read(path).report
        assert report.balanced(), path
        assert set(report.issues) - {"local-time", "folded", "wrapped-lines"} == kinds, path
    path = tmp_path / "t.log"
    path.write_text(NO_TIMES.read_text() + "Training has ended\n")
    assert set(read(path).report.issues) == {"unrecognised"}


def test_a_launcher_s_prefix(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text("".join(f"0: {line}\n" if line else "0:\n" for line in NO_TIMES.read_text().split("\n")))
    named = [(row["name"], row.get("total"), row.get("value")) for row in known_rows(path, "summaries")]
    assert named == [(row["name"], row.get("total"), row.get("value")) for row in known_rows(NO_TIMES, "summaries")]


@pytest.mark.parametrize(
    "text",
    [
        "time (ms) | forward: 5.25 | optimizer: 2.50\n",  # Megatron-LM
        'print("\\n-------------------------- DeepSpeed Flops Profiler --------------------------")\n',
        "epoch=0/micro_step={}/global_step={}, RunningAvgSamplesPerSec={}\n",
    ],
)
def test_other_texts_are_not_its_own(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.log"
    path.write_text(text)
    with pytest.raises(KtraceError):
        read(path)


def test_steps_alone_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text("[Rank 0] step=10, skipped=0, lr=[0.001], mom=[(0.9, 0.999)]\n")
    assert [row["kind"] for row in known_rows(path, "summaries")] == ["note"]
