"""The crop: what stays is what plain Python picks by time, whole, and the account adds up."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from canonical_rows import GPU, HOST, Row, event, link
from click.testing import CliRunner
from conftest import SAMPLES
from engine import errors, query
from real_traces import at_hand, kineto

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, UsageError
from ktrace.report import Report
from ktrace.stages.select import crop as stage
from ktrace.stages.select.crop import cropped
from ktrace.stages.select.dependents import Dependents
from ktrace.stages.select.intervals import Intervals
from ktrace.stages.select.wanted import Crop, Filter, step_of

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

#: Two steps that begin at 1000; the first one's kernels run in the second and after it.
ROWS = [
    event(1, "range", "ProfilerStep#0", 1000, 100, **HOST),
    event(2, "range", "ProfilerStep#1", 1100, 100, **HOST),
    event(3, "api", "launch", 1010, 10, **HOST, correlation=1),
    event(4, "api", "launch", 1090, 15, **HOST, correlation=2),
    event(5, "api", "launch", 1150, 10, **HOST, correlation=3),
    event(21, "counter", "dram", 1050, 40, parent=10, value=1.0, **GPU),
    event(10, "kernel", "gemm", 1050, 40, **GPU, correlation=1),
    event(11, "kernel", "gemm", 1190, 40, **GPU, correlation=2),
    event(22, "counter", "dram", 1190, 40, parent=11, value=2.0, **GPU),
    event(12, "kernel", "norm", 1300, 50, **GPU, correlation=3),
    event(23, "counter", "dram", 1300, 50, parent=12, value=3.0, **GPU),
    event(13, "range", "ProfilerStep#1", 1300, 50, **GPU),
    event(30, "log", "hello", 1100, **HOST),
    event(31, "counter", "memory", 1500, value=7.0),
    event(34, "counter", "clock", 1400, 40, value=800.0),
    event(32, "op", "open", 1400, pid=5, tid=9),
    event(33, "sync", "a moment", 1200, 0, **HOST),
    link(40, "by event", "out", event=4),
    link(41, "by event", "in", event=11),
    link(42, "around", "out", ts=1155, **HOST),
    link(43, "around", "in", ts=1020, bind="next", **HOST),
    link(44, "free", "in", ts=1450, **HOST),
    link(45, "anywhere", "in"),
    {"record": "summary", "source": "t", "id": 50, "kind": "kernel", "name": "all", "metric": "duration", "total": 9.0},
    {"record": "summary", "source": "t", "id": 51, "parent": 50, "kind": "metric", "name": "all", "metric": "dram"},
    {"record": "summary", "source": "t", "id": 52, "kind": "op", "name": "now", "metric": "duration", "ts": 1105},
    {"record": "summary", "source": "t", "id": 53, "parent": 52, "kind": "op", "name": "now", "metric": "bytes"},
    {"record": "catalog", "source": "t", "id": 60, "entity": "device", "device": 0, "name": "H100"},
    {"record": "catalog", "source": "t", "id": 61, "entity": "clock", "facts": {"at_ns": 1000, "unix_ns": 10**18}},
]

#: Kinds of device work.
WORK = ("kernel", "memcpy", "memset", "sync")

ALL = {row["id"] for row in ROWS if row["record"] != "catalog"}

#: The event that each link is on, by hand; 44 is on none and goes by its time, 45 has none and stays.
ON = {40: 4, 41: 11, 42: 5, 43: 4}

#: Crop -> what stays of events and summaries, and of links without an event, by hand.
CASES: dict[str, tuple[Crop, set[int]]] = {
    "an interval": (Crop("90ns..100ns"), {1, 4}),
    "all before": (Crop("..50ns"), {1, 3}),
    "all behind": (Crop("350ns.."), {31, 32, 34, 44}),
    "a row that begins at the end isn't in it": (Crop("0ns..10ns"), {1}),
    "while a value holds": (Crop("430ns..435ns"), {34, 32}),
    "a moment": (Crop("200ns..201ns"), {33, 11, 22}),
    "by its own clock": (Crop("1200ns..1201ns"), {33, 11, 22}),
    "by the time of day": (Crop(f"{10**18 + 200}ns..{10**18 + 201}ns"), {33, 11, 22}),
    "around": (Crop(around="norm", margin=0), {12, 23, 13}),
    "around all": (Crop(around="l*", margin="9ns"), {1, 2, 3, 4, 5, 10, 21, 30, 52, 53}),
    "a step, with what is launched in it": (Crop(step=1), {2, 5, 30, 52, 53, 12, 23, 13}),
    "also what overlaps it": (Crop(step=1, overlapping=True), {2, 4, 5, 30, 52, 53, 11, 22, 12, 23, 13}),
    "a step whose work comes later": (Crop(step="0"), {1, 3, 4, 10, 21, 11, 22}),
    "a step by its name": (Crop(step="ProfilerStep#1"), {2, 5, 30, 52, 53, 12, 23, 13}),
    "two steps by their names": (
        Crop(step="profilerstep#0..ProfilerStep#1"),
        {1, 2, 3, 4, 5, 30, 52, 53, 10, 21, 11, 22, 12, 23, 13},
    ),
    "two steps, one by its name": (
        Crop(step="ProfilerStep#0..1"),
        {1, 2, 3, 4, 5, 30, 52, 53, 10, 21, 11, 22, 12, 23, 13},
    ),
    "two steps": (Crop(step="0..1"), {1, 2, 3, 4, 5, 30, 52, 53, 10, 21, 11, 22, 12, 23, 13}),
    "a range of that name": (Crop(range="Profiler*#0"), {1, 3, 4, 10, 21, 11, 22}),
    "a step and a time": (Crop("..20ns", step=0), {1, 3, 10, 21}),
    "a step and a time that it overlaps": (Crop("60ns..95ns", step=0), {1, 4, 11, 22}),
}


def _written(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"ktrace": "1.0"}, *rows]))
    return path


def _ids(trace: ktrace.Trace) -> set[int]:
    return {number for record in (trace.events, trace.summaries, trace.links) for number in record["id"]}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("step", [1, -1], ids=["as written", "backwards"])
def test_what_stays_is_what_hands_picked(tmp_path: Path, case: str, step: int) -> None:
    wanted, stays = CASES[case]
    stays = stays | {45} | {link for link, event in ON.items() if event in stays}
    out = tmp_path / "out.parquet"
    report = ktrace.convert(_written(tmp_path / "t.jsonl", ROWS[::step]), out, crop=wanted)
    trace = ktrace.read(out)
    assert _ids(trace) == stays
    assert report.balanced()
    ledger = next(ledger for ledger in report.stages if ledger.stage == "crop")
    assert (ledger.taken, ledger.given, ledger.removed.total()) == (len(ALL), len(stays), len(ALL - stays))
    assert report.issues["left-out"].rows == len(ALL - stays)
    assert set(trace.catalog["entity"]) == {"device", "clock"}
    assert list(trace.events["ts"][trace.events["parent"].isna()].diff().dropna().lt(0)).count(True) == 0


def test_the_rows_that_stay_are_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    ktrace.convert(_written(tmp_path / "t.jsonl", ROWS), out, crop=Crop(step=1))
    whole = {row["id"]: row for row in ROWS}
    kept = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    assert len(kept) > 10 and all(row == whole[row["id"]] for row in kept)


def _innermost(events: list[Row], link: Row) -> Row | None:
    mine = [e for e in events if (e["pid"], e["tid"]) == (link["pid"], link["tid"]) and e["dur"] is not None]
    inside = [e for e in mine if e["ts"] <= link["ts"] < e["ts"] + e["dur"]]
    return max(inside, key=lambda e: (e["ts"], -e["dur"], e["id"]), default=None)


def _plain() -> tuple[list[Row], list[Row]]:
    """Events and links of a step of PyTorch as plain rows."""
    whole = ktrace.read(STEP)
    events, links = (
        frame.astype(object).where(frame.notna(), None).to_dict("records") for frame in (whole.events, whole.links)
    )
    return events, links


@pytest.mark.parametrize("first", range(0, 1_000_000, 145_000))
def test_a_step_of_pytorch_against_plain_python(tmp_path: Path, first: int) -> None:
    events, links = _plain()
    begin, end = 100_000 + first, 100_000 + first + 30_000
    kept = {e["id"] for e in events if e["ts"] < end and (e["ts"] + (e["dur"] or 0) > begin or e["ts"] >= begin)}
    on = {link["id"]: _innermost(events, link) for link in links}
    ends = {number for number, event in on.items() if event is not None and event["id"] in kept}
    out = tmp_path / "out.parquet"
    report = ktrace.convert(STEP, out, crop=Crop(f"{first}ns..{first + 30_000}ns"))
    trace = ktrace.read(out)
    assert set(trace.events["id"]) == kept and 0 < len(kept) < len(events)
    assert set(trace.links["id"]) == ends
    assert report.written + report.issues["left-out"].rows == len(events) + len(links)


def test_a_range_takes_the_work_of_its_calls_wherever_it_runs(tmp_path: Path) -> None:
    events, _ = _plain()
    (range_,) = [e for e in events if e["name"] == "Optimizer.step#AdamW.step"]
    begin, end = range_["ts"], range_["ts"] + range_["dur"]
    inside = {e["id"] for e in events if begin <= e["ts"] < end}
    calls = {e["correlation"] for e in events if e["kind"] == "api" and e["id"] in inside}
    launched = {e["id"] for e in events if e["kind"] in WORK and e["correlation"]}
    mine = {e["id"] for e in events if e["id"] in launched and e["correlation"] in calls}
    assert [e["name"][:9] for e in events if e["id"] in mine - inside and e["kind"] == "kernel"] == ["void at::"]
    ktrace.convert(STEP, tmp_path / "out.parquet", crop=Crop(range="Optimizer.step*"))
    on_device = {e["id"] for e in events if e["device"] is not None and e["kind"] not in WORK}
    found = set(ktrace.read(tmp_path / "out.parquet").events["id"])
    assert found - on_device == (inside - launched - on_device) | mine
    overlap = {e["id"] for e in events if e["ts"] < end and e["ts"] + e["dur"] > begin}
    ktrace.convert(STEP, tmp_path / "out.parquet", crop=Crop(range="Optimizer.step*", overlapping=True), overwrite=True)
    found = set(ktrace.read(tmp_path / "out.parquet").events["id"])
    assert found - on_device == (overlap - on_device) | mine


def test_timelines_show_the_part_and_nothing_else(tmp_path: Path) -> None:
    events, _ = _plain()
    part = Crop("400us..600us")
    kept = [e for e in events if e["ts"] < 700_000 and e["ts"] + e["dur"] > 500_000]
    perfetto, chrome = tmp_path / "out.perfetto", tmp_path / "out.trace.json"
    ktrace.convert(STEP, perfetto, crop=part, strict=True)
    ktrace.convert(STEP, chrome, crop=part, strict=True)
    (slices,) = query(perfetto, "select name, ts, dur from slice")
    key = [(e["name"], e["dur"]) for e in kept]
    assert sorted((row["name"], row["dur"]) for row in slices) == sorted(key)
    assert {fault["name"] for fault in errors(perfetto)} <= {"unknown_extension_fields"}  # those of kernels
    shown = [e for e in json.loads(chrome.read_text())["traceEvents"] if e["ph"] == "X"]
    assert sorted(e["name"] for e in shown) == sorted(e["name"] for e in kept)


def test_a_filter_sees_the_crop_but_not_the_other_way_round(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    source = _written(tmp_path / "t.jsonl", ROWS)
    report = ktrace.convert(source, out, crop=Crop(step=1), filter=Filter(kinds=["kernel"]))
    assert _ids(ktrace.read(out)) == {12, 23, 45}
    assert [ledger.stage for ledger in report.stages] == ["crop", "filter", "parquet"]


def test_a_trace_in_memory_gives_its_parts(tmp_path: Path) -> None:
    source, out = _written(tmp_path / "t.jsonl", ROWS), tmp_path / "out.parquet"
    wanted, part = Filter(kinds=["kernel"]), Crop(step=1)
    ktrace.convert(source, out, crop=part, filter=wanted)
    trace = ktrace.read(source)
    some = trace.crop(part).filter(wanted)
    assert some.equals(ktrace.read(out))
    assert some.report.balanced()
    assert some.report.issues["left-out"].rows == len(_ids(trace.crop(part))) - len(_ids(some)) == 7
    assert _ids(trace) == ALL


def test_each_source_has_its_own_steps_but_one_time(tmp_path: Path) -> None:
    later = [
        row | {"source": "u"} | ({"ts": row["ts"] + 500} if "ts" in row else {}) for row in ROWS if row["id"] != 61
    ]
    inputs = [_written(tmp_path / "t.jsonl", ROWS), _written(tmp_path / "u.jsonl", later)]
    out = tmp_path / "out.parquet"
    ktrace.convert(inputs, out, crop=Crop(step=1))
    events = ktrace.read(out).events
    first, second = (set(events[events["source"] == name]["id"]) for name in "tu")
    assert first == second == {2, 5, 30, 12, 23, 13}
    ktrace.convert(inputs, out, crop=Crop("500ns..550ns"), overwrite=True)
    events = ktrace.read(out).events
    assert {*zip(events["source"], events["id"], strict=True)} == {("t", 31), ("t", 32), ("u", 1), ("u", 3)}


def test_launches_may_be_told_by_links(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "correlation"} for row in ROWS]
    pairs = [(3, 10), (4, 11), (5, 12)]
    links = [
        link(100 + 10 * number + end, f"launch {call}", ("out", "in")[end], event=event) | {"link": "launch"}
        for number, (call, work) in enumerate(pairs)
        for end, event in enumerate((call, work))
    ]
    for step, stays in ((0, {10, 11}), (1, {12})):
        out = tmp_path / f"{step}.parquet"
        ktrace.convert(_written(tmp_path / "t.jsonl", links + rows), out, crop=Crop(step=step))
        events = ktrace.read(out).events
        assert set(events[events["kind"] == "kernel"]["id"]) == stays
    ktrace.convert(tmp_path / "t.jsonl", tmp_path / "time.parquet", crop=Crop("0ns..100ns"))
    events = ktrace.read(tmp_path / "time.parquet").events
    assert set(events[events["kind"] == "kernel"]["id"]) == {10}


def test_begins_and_ends_are_slices_before(tmp_path: Path) -> None:
    source = tmp_path / "halves.json"
    halves = [("B", "outer", 0), ("B", "inner", 10), ("E", None, 12), ("E", None, 50), ("B", "open", 60)]
    events = [{"ph": ph, "ts": ts, "pid": 1, "tid": 1} | ({"name": name} if name else {}) for ph, name, ts in halves]
    source.write_text(json.dumps({"traceEvents": events}))
    for time, names in (("20us..30us", ["outer"]), ("50us..", ["open"]), ("11us..59us", ["inner", "outer"])):
        report = ktrace.convert(source, tmp_path / "out.jsonl", crop=Crop(time), overwrite=True)
        assert [ledger.stage for ledger in report.stages][:2] == ["pair", "crop"]
        assert sorted(ktrace.read(tmp_path / "out.jsonl").events["name"]) == names


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Crop("5s..6s"), ["has no time 5s..6s", "0s..500ns from its start, or 1000ns..1500ns by its own clock"]),
        (Crop("..0s"), ["has no time ..0s"]),
        (Crop(step=7), ["there is no step 7", "one of the steps 0, 1"]),
        (Crop(range="ProfilerStep#2"), ["no range is called 'ProfilerStep#2'", "ProfilerStep#1"]),
        (Crop(range="gemm"), ["no range is called 'gemm'", "ProfilerStep#0"]),
        (Crop(around="gem"), ["no event is called 'gem'", "such as gemm"]),
        (Crop("400ns..", step=0), ["no row is in all of the selected parts"]),
    ],
)
def test_what_is_not_there_is_told(tmp_path: Path, wanted: Crop, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        ktrace.convert(_written(tmp_path / "t.jsonl", ROWS), tmp_path / "out.csv", crop=wanted)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not (tmp_path / "out.csv").exists()


def test_tables_alone_have_no_time(tmp_path: Path) -> None:
    source = SAMPLES / "mlc/two-dialects-and-a-peak-that-disagrees.md"
    with pytest.raises(InputError, match="no events, and so no time"):
        ktrace.convert(source, tmp_path / "out.csv", crop=Crop("1s.."))


def test_wrong_words_are_told() -> None:
    for given, what in (
        ({}, "no part is selected"),
        ({"time": "1s"}, "'1s' isn't a time interval"),
        ({"time": "1s..", "overlapping": True}, "only steps, ranges and phases are also taken overlapping"),
        ({"step": "a"}, "'a' isn't a step"),
        ({"step": "ProfilerStep#"}, "isn't a step"),
        ({"step": "ProfilerStep#1..Iteration 2"}, "isn't a step"),
        ({"step": "1..ProfilerStep#2"}, "isn't a step"),
        ({"step": "1.."}, "isn't a step"),
        ({"around": "a", "margin": "5"}, "'5' isn't a time with a unit"),
    ):
        with pytest.raises(UsageError, match=what):
            Crop(**given)


def test_the_options_of_the_command_say_the_same(tmp_path: Path) -> None:
    source = _written(tmp_path / "t.jsonl", ROWS)
    for number, (options, wanted) in enumerate(
        [
            (["--time", "90ns..100ns"], Crop("90ns..100ns")),
            (["--around", "norm", "--margin", "9ns"], Crop(around="norm", margin=9)),
            (["--step", "0..1", "--range", "ProfilerStep#0"], Crop(step="0..1", range="ProfilerStep#0")),
            (["--step", "1", "--overlapping"], Crop(step=1, overlapping=True)),
        ]
    ):
        out, other = tmp_path / f"{number}.parquet", tmp_path / f"other{number}.parquet"
        done = CliRunner().invoke(cli, ["convert", str(source), "-o", str(out), *options])
        assert done.exit_code == 0 and "cropped" in done.output, done.output
        ktrace.convert(source, other, crop=wanted)
        assert ktrace.read(out).equals(ktrace.read(other))


def test_small_ranges_and_spilled_rows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = ktrace.read(STEP)
    part = Crop(range="loss.*", around="*AllReduce*")
    expected = _ids(ktrace.Trace(cropped(trace.batches(), part, Report())))
    monkeypatch.setattr(stage, "SPILL_BYTES", 1000)
    monkeypatch.setattr(stage, "RANGE_ROWS", 3)
    monkeypatch.setattr(Dependents.rest, "__defaults__", (3,))
    parts = [
        ktrace.Batch(batch.record, batch.columns.slice(first, 4))
        for batch in trace.batches()
        for first in range(0, len(batch), 4)
    ]
    assert _ids(ktrace.Trace(cropped(parts, part, Report()))) == expected
    assert 0 < len(expected) < len(trace.events)


def test_intervals_are_sets() -> None:
    some = Intervals.from_pairs([(5, 7), (1, 3), (3, 4), (6, 9), (2, 2)])
    assert some.pairs() == [(1, 4), (5, 9)]
    assert some.intersection(Intervals.from_pairs([(0, 2), (3, 6), (8, 20)])).pairs() == [
        (1, 2),
        (3, 4),
        (5, 6),
        (8, 9),
    ]
    assert Intervals.from_pairs([]).intersection(some).pairs() == []


def test_a_named_step_leaves_out_those_of_other_names(tmp_path: Path) -> None:
    rows = [
        event(1, "range", "ProfilerStep#3", 0, 100, **HOST),
        event(2, "range", "Iteration 3", 200, 100, **HOST),
        event(3, "range", "ProfilerStep#4", 400, 100, **HOST),
    ]
    source = _written(tmp_path / "t.jsonl", rows)
    for step, ids in (("3", {1, 2}), ("ProfilerStep#3", {1}), ("Iteration 3", {2}), ("ProfilerStep#3..4", {1, 3})):
        ktrace.convert(source, tmp_path / "o.parquet", crop=Crop(step=step), overwrite=True)
        assert set(ktrace.read(tmp_path / "o.parquet").events["id"]) == ids
    with pytest.raises(InputError, match="no step Iteration 4") as error:
        ktrace.convert(source, tmp_path / "no.parquet", crop=Crop(step="Iteration 4"))
    assert error.value.expected == "one of the steps Iteration 3, ProfilerStep#3, ProfilerStep#4"


def test_steps_are_told_by_their_names() -> None:
    names = [
        "ProfilerStep#12",
        "Iteration 12",
        "iteration12",
        "train_step_12",
        "Step: 12",
        "iter=12",
        "training step 12",
    ]
    assert [step_of(name) for name in names] == [12] * len(names)
    assert [step_of(name) for name in ("Optimizer.step#AdamW.step", "step", "12", "ProfilerStep#", "mystep 12")] == [
        None
    ] * 5


REAL = kineto("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "worker0.1623143089861.pt.trace.json.gz")


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name.partition(".")[0])
def test_a_step_of_a_real_trace_is_what_was_launched_in_it(tmp_path: Path, path: Path) -> None:
    """By the correlation ids in the source, for every command and in Python; the sum of all steps is that by step."""
    document = json.loads(gzip.decompress(at_hand(path).read_bytes()), parse_float=Decimal)
    events = [one for one in document["traceEvents"] if one.get("ph") == "X"]
    steps = {one["name"]: one for one in events if one["name"].startswith("ProfilerStep#") and _is_host(one)}
    name = sorted(steps)[1]
    begin, end = steps[name]["ts"], steps[name]["ts"] + steps[name]["dur"]
    correlation = {one["args"]["correlation"]: one for one in events if one["cat"] in ("cuda_runtime", "Runtime")}
    work = [one for one in events if one["cat"].lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")]
    calls = [correlation.get(one["args"]["correlation"], one) for one in work]
    mine = [one for one, call in zip(work, calls, strict=True) if begin <= call["ts"] < end]
    total = int(1000 * sum(one["dur"] for one in mine))
    meanwhile = [one for one in work if one["ts"] < end and one["ts"] + one["dur"] > begin]
    grouped = next(group for group in ktrace.summary(path, by=["step"]).groups["step"] if group.key == name)
    part = Crop(step=name)
    alone = ktrace.summary(path, by=["kernel"], crop=part)
    diff = ktrace.diff(path, path, by=["kernel"], crop=part)
    ktrace.convert(path, tmp_path / "out.parquet", crop=part)
    rows = ktrace.read(tmp_path / "out.parquet").events
    rows = rows[rows["kind"].isin(("kernel", "memcpy", "memset"))]
    expected = (len(mine), total)
    assert (grouped.count, grouped.total) == (alone.count, alone.total) == expected
    assert (diff.a.count, diff.b.total) == (len(rows), rows["dur"].sum()) == expected
    overlapping = ktrace.summary(path, by=["kernel"], crop=Crop(step=name, overlapping=True))
    known = {id(one) for one in (*mine, *meanwhile)}
    assert overlapping.count == len(known) >= len(mine)


def _is_host(one: dict[str, Any]) -> bool:
    return one["cat"] in ("user_annotation", "Operator", "cpu_op")
