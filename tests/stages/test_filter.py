"""The filter: what stays is what plain Python picks, and the account adds up."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from canonical_rows import GPU, HOST, Row, event, link
from click.testing import CliRunner
from conftest import SAMPLES
from engine import errors, query

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, UsageError
from ktrace.report import Report
from ktrace.stages.select import dependents
from ktrace.stages.select.filter import filtered
from ktrace.stages.select.wanted import Filter

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

#: A step with an op, in it a call; two kernels with metrics, one of which comes before its kernel; arrows of all sorts.
ROWS = [
    event(1, "range", "step", 0, 1000, **HOST),
    event(2, "op", "linear", 100, 200, **HOST, args={"a": 1}),
    event(3, "api", "launch", 150, 20, **HOST, correlation=1),
    event(21, "counter", "dram", 300, 500, parent=10, value=3.5, **GPU),
    event(10, "kernel", "void gemm<8>()", 300, 500, **GPU, correlation=1, short_name="gemm"),
    event(11, "kernel", "copy", 900, 5, **{**GPU, "device": 1}, correlation=2),
    event(22, "counter", "dram", 900, 5, parent=11, value=1.5, **{**GPU, "device": 1}),
    event(12, "kernel", "gemm tail", 910, 80, device=0, stream=8, parent=3),
    event(30, "log", "hello", 400, **HOST),
    event(31, "counter", "memory", 500, value=7.0),
    event(32, "op", "open", 950, **HOST),
    link(40, "by event", "out", event=3),
    link(41, "by event", "in", event=10),
    link(42, "around", "out", ts=160, **HOST),
    link(43, "around", "in", ts=250, bind="enclosing", **HOST),
    link(44, "next", "in", ts=120, bind="next", **HOST),
    link(45, "in an open slice", "in", ts=5000, **HOST),
    link(46, "elsewhere", "in", event=999),
    {
        "record": "summary",
        "source": "t",
        "id": 50,
        "kind": "kernel",
        "name": "gemm",
        "metric": "duration",
        "total": 9.0,
    },
    {"record": "summary", "source": "t", "id": 51, "parent": 50, "kind": "metric", "name": "gemm", "metric": "dram"},
    {"record": "summary", "source": "t", "id": 52, "kind": "op", "name": "linear", "metric": "duration", "total": 7.0},
    {"record": "summary", "source": "t", "id": 53, "parent": 52, "kind": "op", "name": "mul", "metric": "duration"},
    {"record": "summary", "source": "t", "id": 54, "parent": 52, "kind": "op", "name": "linear", "metric": "bytes"},
    {"record": "catalog", "source": "t", "id": 60, "entity": "device", "device": 0, "name": "H100"},
    {"record": "catalog", "source": "t", "id": 61, "entity": "source", "name": "t", "facts": {"rank": 3}},
]

ALL = {row["id"] for row in ROWS if row["record"] != "catalog"}

#: The event that each link is on, by hand; 999 is nowhere, so that 46 always stays.
ON = {40: 3, 41: 10, 42: 3, 43: 2, 44: 3, 45: 32}

#: Filter -> events and summaries that go, by hand.
CASES: dict[str, tuple[Filter, set[int]]] = {
    "kinds": (Filter(kinds=["kernel"]), {1, 2, 3, 30, 31, 32, 52, 53, 54}),
    "figures asked for by kind": (Filter(kinds=["counter"]), {1, 2, 3, 10, 11, 12, 30, 32, 50, 51, 52, 53, 54}),
    "figures asked for by name": (
        Filter(names=["dram"]),
        {1, 2, 3, 10, 11, 12, 30, 31, 32, 50, 51, 52, 53, 54},
    ),
    "names, short or whole": (Filter(names=["gemm", "lin*"]), {1, 3, 11, 22, 12, 30, 31, 32, 53}),
    "device": (Filter(devices=[1]), ALL - {11, 22, 40, 41, 42, 43, 44, 45, 46}),
    "streams": (Filter(streams=[7, 9], kinds=["kernel"]), ALL - {10, 21, 11, 22, 40, 41, 42, 43, 44, 45, 46}),
    "short slices": (Filter(min_dur="21ns"), {3, 11, 22}),
    "only the GPU": (Filter(only_gpu=True), {1, 2, 3, 30, 31, 32, 52, 53, 54}),
    "rank": (Filter(ranks=[3, 4], kinds=["op"]), ALL - {2, 32, 52, 53, 54, 40, 41, 42, 43, 44, 45, 46}),
}


def _written(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"ktrace": "1.0"}, *rows]))
    return path


def _ids(trace: ktrace.Trace) -> set[int]:
    return {number for record in (trace.events, trace.summaries, trace.links) for number in record["id"]}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", [list, lambda rows: rows[::-1]], ids=["as written", "backwards"])
def test_what_goes_is_what_hands_picked(tmp_path: Path, case: str, order: Callable[[list[Row]], list[Row]]) -> None:
    wanted, gone = CASES[case]
    source, out = _written(tmp_path / "t.jsonl", order(ROWS)), tmp_path / "out.parquet"
    report = ktrace.convert(source, out, filter=wanted)
    gone = gone | {link for link, event in ON.items() if event in gone}
    trace = ktrace.read(out)
    assert _ids(trace) == ALL - gone
    assert report.balanced()
    ledger = next(stage for stage in report.stages if stage.stage == "filter")
    assert (ledger.taken, ledger.given, ledger.removed.total()) == (len(ALL), len(ALL - gone), len(gone))
    assert report.issues["left-out"].rows == len(gone)
    assert set(trace.catalog["entity"]) == {"device", "source"}


def test_the_rows_that_stay_are_unchanged(tmp_path: Path) -> None:
    source, out = _written(tmp_path / "t.jsonl", ROWS), tmp_path / "out.jsonl"
    ktrace.convert(source, out, filter=Filter(kinds=["kernel", "op", "metric"]))
    whole = {row["id"]: row for row in ROWS}
    kept = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    assert {row["id"] for row in kept} >= {2, 10, 11, 12, 21, 22, 50, 51}
    assert all(row == whole[row["id"]] for row in kept)


def test_arguments_go_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    report = ktrace.convert(STEP, out, filter=Filter(drop_args=True))
    bare, whole = ktrace.read(out), ktrace.read(STEP)
    assert whole.events["args"].notna().any()
    assert bare.events["args"].isna().all()
    left = whole.events.drop(columns="args").sort_values("id", ignore_index=True)
    assert bare.events.drop(columns="args").sort_values("id", ignore_index=True).equals(left)
    assert report.written == len(whole.events) + len(whole.links) and "left-out" not in report.issues


def _around(events: list[Row], link: Row) -> Row | None:
    """The innermost slice around the place of a link, the plain way."""
    mine = [e for e in events if (e["pid"], e["tid"]) == (link["pid"], link["tid"]) and e["dur"] is not None]
    inside = [e for e in mine if e["ts"] <= link["ts"] < e["ts"] + e["dur"]]
    return max(inside, key=lambda e: (e["ts"], -e["dur"], e["id"]), default=None)


@pytest.mark.parametrize(
    ("wanted", "test"),
    [
        (Filter(kinds=("op",)), lambda e: e["kind"] == "op"),
        (Filter(kinds=("kernel", "memcpy")), lambda e: e["kind"] in ("kernel", "memcpy")),
        (Filter(names=("aten::*",)), lambda e: fnmatchcase(e["name"], "aten::*")),
        (Filter(min_dur=40_000), lambda e: e["dur"] is None or e["dur"] >= 40_000),
        (Filter(streams=(20,)), lambda e: e["stream"] == 20),
        (Filter(only_gpu=True, min_dur="60us"), lambda e: e["device"] is not None and e["dur"] >= 60_000),
    ],
)
def test_a_step_of_pytorch_against_plain_python(tmp_path: Path, wanted: Filter, test: Callable[[Row], bool]) -> None:
    whole = ktrace.read(STEP)
    events = whole.events.astype(object).where(whole.events.notna(), None).to_dict("records")
    kept = {row["id"] for row in events if test(row)}
    on = {link["id"]: _around(events, link) for link in whole.links.to_dict("records")}
    assert any(on.values())
    links = {number for number, event in on.items() if event is None or event["id"] in kept}
    out = tmp_path / "out.parquet"
    report = ktrace.convert(STEP, out, filter=wanted)
    trace = ktrace.read(out)
    assert set(trace.events["id"]) == kept and 0 < len(kept) < len(events)
    assert set(trace.links["id"]) == links
    assert report.written == len(kept) + len(links)


def test_timelines_show_what_is_left_and_the_arrows_on_it(tmp_path: Path) -> None:
    perfetto, chrome = tmp_path / "out.perfetto", tmp_path / "out.trace.json"
    wanted = Filter(kinds=["op", "kernel"], names=["aten::*", "*gemm*", "autograd*"])
    report = ktrace.convert(STEP, perfetto, filter=wanted, strict=True)
    ktrace.convert(STEP, chrome, filter=wanted, strict=True)
    events = ktrace.read(STEP).events
    names = events["name"].str.startswith(("aten::", "autograd")) | events["name"].str.contains("gemm")
    expected = sorted(events[names & events["kind"].isin(["op", "kernel"])]["name"])
    slices, flows = query(perfetto, "select name from slice", "select count() n from flow")
    assert sorted(row["name"] for row in slices) == expected
    assert errors(perfetto) == []
    assert sorted(e["name"] for e in json.loads(chrome.read_text())["traceEvents"] if e["ph"] == "X") == expected
    assert flows[0]["n"] * 2 == len(ktrace.read(perfetto).links) > 0
    assert "unbound-link" not in report.issues


def test_begins_and_ends_are_judged_as_slices(tmp_path: Path) -> None:
    source = tmp_path / "halves.json"
    halves = [("B", "outer", 0), ("B", "inner", 10), ("E", None, 12), ("E", None, 50), ("B", "open", 60)]
    events = [{"ph": ph, "ts": ts, "pid": 1, "tid": 1} | ({"name": name} if name else {}) for ph, name, ts in halves]
    source.write_text(json.dumps({"traceEvents": events}))
    for out in ("out.jsonl", "out.perfetto"):
        report = ktrace.convert(source, tmp_path / out, filter=Filter(min_dur="10us"))
        assert [stage.stage for stage in report.stages][:2] == ["pair", "filter"]
        trace = ktrace.read(tmp_path / out)
        assert sorted(trace.events["name"]) == ["open", "outer"]


def test_metrics_of_another_tool_go_with_their_kernels(tmp_path: Path) -> None:
    timeline = tmp_path / "t.json"
    launch = {"grid": [1, 1, 1], "block": [32, 1, 1], "device": 0, "stream": 7, "context": 1}
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": launch}
    halves = [
        {"ph": ph, "cat": "cpu_op", "name": "op", "pid": 9, "tid": 9, "ts": ts} for ph, ts in (("B", 0), ("E", 5))
    ]
    kernels = [kernel | {"name": name, "ts": ts, "dur": 2} for name, ts in (("gemm", 10), ("norm", 20))]
    timeline.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [*halves, *kernels]}))
    size = {"grid_x": 1, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1, "device": 0, "stream": 7}
    rows: list[Row] = []
    for number, name in ((1, "gemm"), (3, "norm")):
        head = {"record": "summary", "source": "n", "id": number, "kind": "kernel", "name": name, "metric": "duration"}
        rows += [head | size | {"total": 1.0, "unit": "us"}]
        rows += [{**head, "id": number + 1, "parent": number, "kind": "metric", "metric": "dram", "value": 1.0}]
    metrics = _written(tmp_path / "n.jsonl", rows)
    out = tmp_path / "out.parquet"
    report = ktrace.convert(timeline, out, metrics=metrics, filter=Filter(names=["gemm", "op"]))
    events = ktrace.read(out).events
    gemm = events[events["name"] == "gemm"].iloc[0]
    assert sorted(events["name"]) == ["dram", "gemm", "gpu__time_duration.sum", "op"]
    assert set(events[events["kind"] == "counter"]["parent"]) == {gemm["id"]}
    assert [stage.stage for stage in report.stages] == ["metrics", "pair", "filter", "parquet"]


def test_a_rank_that_nobody_has_is_an_error(tmp_path: Path) -> None:
    source = _written(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(InputError, match=r"there is no rank 5\n  expected: one of the ranks 3"):
        ktrace.convert(source, tmp_path / "out.csv", filter=Filter(ranks=[5]))
    bare = _written(tmp_path / "bare.jsonl", [row for row in ROWS if row["id"] != 61])
    with pytest.raises(InputError, match="no source has a rank"):
        ktrace.convert(bare, tmp_path / "out.csv", filter=Filter(ranks=[5]))
    assert not (tmp_path / "out.csv").exists()


def test_of_several_ranks_one_stays(tmp_path: Path) -> None:
    second = [row | {"source": "u"} | ({"facts": {"rank": 4}} if row["id"] == 61 else {}) for row in ROWS]
    inputs = [_written(tmp_path / "t.jsonl", ROWS), _written(tmp_path / "u.jsonl", second)]
    report = ktrace.convert(inputs, tmp_path / "out.parquet", filter=Filter(ranks=[4]))
    trace = ktrace.read(tmp_path / "out.parquet")
    assert {*trace.events["source"], *trace.links["source"], *trace.summaries["source"]} >= {"u"}
    assert set(trace.events["source"]) == {"u"} == set(trace.summaries["source"])
    assert _ids(trace) == ALL
    assert report.rows["catalog"] == 4


def test_wrong_words_are_told() -> None:
    with pytest.raises(UsageError, match="there is no kind 'krnl'"):
        Filter(kinds="krnl")
    with pytest.raises(UsageError, match="'10' isn't a time with a unit"):
        Filter(min_dur="10")
    assert Filter(kinds="x_mine", names="a", min_dur="1.5us") == Filter(kinds=("x_mine",), names=("a",), min_dur=1500)


def test_the_options_of_the_command_say_the_same(tmp_path: Path) -> None:
    out, other = tmp_path / "out.parquet", tmp_path / "other.parquet"
    options = (
        "--kind kernel,op --name *gemm* --name aten::* --device 0 --stream 7,20 --rank 0 --min-dur 60us --drop-args"
    )
    done = CliRunner().invoke(cli, ["convert", str(STEP), "-o", str(out), *options.split()])
    assert done.exit_code == 0, done.output
    assert "left-out" in done.output
    wanted = Filter(["kernel", "op"], ["*gemm*", "aten::*"], [0], [7, 20], [0], "60us", drop_args=True)
    ktrace.convert(STEP, other, filter=wanted)
    assert ktrace.read(out).equals(ktrace.read(other))
    assert set(ktrace.read(out).events["dur"]) == {61_567, 63_008, 66_431}
    for bad in (["--device", "a"], ["--kind", "kernel,"]):
        assert CliRunner().invoke(cli, ["convert", str(STEP), "-o", "x.csv", *bad]).exit_code == 2


def test_small_ranges_and_spilled_rows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = ktrace.read(STEP)
    wanted = Filter(kinds=["op"], names=["*e*"])
    expected = _ids(ktrace.Trace(filtered(trace.batches(), wanted, Report())))
    monkeypatch.setattr("ktrace.stages.select.filter.SPILL_BYTES", 1000)
    monkeypatch.setattr(dependents.Dependents.rest, "__defaults__", (3,))
    parts = [
        ktrace.Batch(batch.record, batch.columns.slice(first, 4))
        for batch in trace.batches()
        for first in range(0, len(batch), 4)
    ]
    report = Report()
    assert _ids(ktrace.Trace(filtered(parts, wanted, report))) == expected
    assert 0 < len(expected) < len(trace.events)
