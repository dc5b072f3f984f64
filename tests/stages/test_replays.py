"""Replayed kernels of graphs get the operators that launched them when the graph was captured."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED
from real_traces import at_hand

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, UsageError
from ktrace.model.batch import Batch
from ktrace.naming.demangling import demangled
from ktrace.pipeline.read import read_batches
from ktrace.stages.replays import ANY, COPY, Arrows, Capture, Replay, Run, fit, matched, with_own_captures

CAPTURE = SAMPLES / "kineto" / "graph-capture-of-rocm.pt.trace.json"
REPLAYS = SAMPLES / "kineto" / "graph-replays-of-rocm.pt.trace.json"
REAL = SHARED / "captures"
REAL_CAPTURE = REAL / "vllm_decode_full_capture_rank_0.pt.trace.json.gz"
REAL_REPLAY = REAL / "vllm_decode_full_replay.json.gz"

Events = list[dict[str, Any]]


def changed(source: Path, out: Path, change: Callable[[Events], Events | None], **members: Any) -> Path:
    """The trace with other events, and other members of the document."""
    document = json.loads(source.read_text())
    document["traceEvents"] = change(document["traceEvents"]) or document["traceEvents"]
    out.write_text(json.dumps(document | members))
    return out


def same(events: Events) -> None:
    """Changes nothing."""


def operators(replays: Any, **options: Any) -> tuple[list[str | None], ktrace.Report]:
    """The operators of the device work, in order of time."""
    trace = ktrace.read(replays, **options)
    rows = [row for row in trace.to_arrow()["events"].to_pylist() if row["kind"] in ("kernel", "memcpy")]
    found = [json.loads(row["args"] or "{}").get("operator") for row in sorted(rows, key=lambda row: row["ts"])]
    return found, trace.report


REPLAY = ["aten::addmm", "aten::add", "aiter::norm", "aten::copy_", "SortTokens", "SortTokens"]


def test_replayed_kernels_have_operator_shapes_and_module() -> None:
    trace = ktrace.read(REPLAYS, capture=CAPTURE)
    args = [
        json.loads(row["args"] or "{}") for row in trace.to_arrow()["events"].to_pylist() if row["kind"] == "kernel"
    ]
    first = next(one for one in args if one.get("operator") == "aten::addmm")
    assert first["Input Dims"] == [[32], [4, 64], [64, 32]]
    assert (first["module"], first["operator_id"]) == ("Linear_3", 4)
    assert first["captured_in"] == ["nn.Module: Decoder_0", "nn.Module: Linear_3", "aten::linear", "aten::addmm"]
    assert not any("operator_matched" in one for one in args)
    assert operators(REPLAYS, capture=CAPTURE)[0] == [*REPLAY, *REPLAY, None]
    assert trace.report.issues["captured"].rows == 12
    assert not trace.report.issues.keys() & {"uncaptured", "other-run"}
    assert trace.report.balanced()


def test_replayed_kernels_have_the_grid_of_the_captured_call(tmp_path: Path) -> None:
    """Work-items of hipExtModuleLaunchKernel are blocks, as everywhere; copies have no grid."""

    def launched(events: Events) -> None:
        for one in events:
            if "kernel" in one.get("args", {}):
                one["args"] |= {"grid": [64 * len(one["args"]["kernel"]), 2, 1], "block": [64, 1, 1]}

    capture = changed(CAPTURE, tmp_path / "c.json", launched)
    grids = {
        one["args"]["kernel"]: (one["args"]["grid"][0] // (64 if "ExtModule" in one["name"] else 1), 2, 64)
        for one in json.loads(capture.read_text())["traceEvents"]
        if "kernel" in one.get("args", {})
    }
    rows = ktrace.read(REPLAYS, capture=capture).to_arrow()["events"].to_pylist()
    replayed = [row for row in rows if '"captured_in"' in (row["args"] or "")]
    kernels = [row for row in replayed if row["kind"] == "kernel"]
    found = {(row["name"], (row["grid_x"], row["grid_y"], row["block_x"])) for row in kernels}
    assert {grid for _, grid in found} - {(None, None, None)} == set(grids.values())
    assert {name for name, grid in found if grid == (None, None, None)} == {"__amd_rocclr_copyBuffer"}
    assert not any(row["grid_x"] for row in replayed if row["kind"] != "kernel")


def test_without_a_capture_nothing_is_said() -> None:
    found, report = operators(REPLAYS)
    assert found == [None] * 13
    assert not report.issues.keys() & {"captured", "uncaptured", "other-run"}


@pytest.mark.parametrize("by", [["kernel"], ["op"], ["module"], ["line"], ["op", "line"]])
@pytest.mark.parametrize("out", ["out.parquet", "out.jsonl", "out.perfetto", None])
def test_a_capture_is_asked_for_once_where_it_is_missing(tmp_path: Path, out: str | None, by: list[str]) -> None:
    """Where operators are known or asked for, and the input has none of those that graphs replay."""
    said = []
    for captured in ({}, {"capture": CAPTURE}):
        source, options = REPLAYS, captured
        if out:
            source, options = tmp_path / f"{len(captured)}{out}", {}
            ktrace.convert(REPLAYS, source, **captured)
        summary = ktrace.summary(source, by=by, **options)
        said.append(
            str([*summary.notes, *(one.notes for answer in summary.answers.values() for one in answer.tables())])
        )
    assert said[0].count("12 device activities (57.750 us) were replayed") == said[0].count("--capture FILE") == 1
    assert "--capture" not in said[1]


def test_no_capture_is_asked_for_without_replays() -> None:
    for by in (["op"], ["line"], ["kernel"]):
        summary = ktrace.summary(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", by=by)
        assert "--capture" not in str([summary.notes, *(one.notes for one in summary.tables())])


@pytest.mark.parametrize("out", ["out.parquet", "out.jsonl", None])
def test_answers_count_operators_modules_and_shapes(tmp_path: Path, out: str | None) -> None:
    source, options = REPLAYS, {"capture": CAPTURE}
    if out:
        source, options = tmp_path / out, {}
        ktrace.convert(REPLAYS, source, capture=CAPTURE)
        assert "captured" not in ktrace.read(source, capture=CAPTURE).report.issues
    answers = ktrace.summary(source, by=["op", "module", "roofline"], **options).answers
    own = {row.name: (row.own, row.launched_own) for row in answers["op"].rows}
    assert own == {
        "aten::addmm": (10_250 + 11_250, 2),
        "SortTokens": (4_000 + 4_500 + 5_000 + 5_500, 4),
        "aiter::norm": (3_125 + 4_125, 2),
        "aten::add": (2_500 + 3_500, 2),
        "aten::copy_": (1_500 + 2_500, 2),
        "aten::argmax": (6_000, 1),
        "aten::linear": (0, 0),
    }
    total = {row.name: row.total for row in answers["module"].rows}
    assert total == {"Decoder": 57_750, "Linear": 27_500, "no module": 6_000}
    (product,) = [item for item in answers["roofline"].items if item.name == "aten::addmm"]
    assert (product.shapes, product.calls, product.kernels) == ("32, 4x64, 64x32", 2, 2)
    assert product.flops == 2 * (2 * 4 * 64 * 32 + 4 * 32) or product.flops == 2 * (2 * 4 * 64 * 32)


@pytest.mark.parametrize("out", [None, "x.parquet", "x.jsonl"])
def test_replayed_kernels_have_the_shapes_of_the_captured_call(tmp_path: Path, out: str | None) -> None:
    source, options = REPLAYS, {"capture": CAPTURE}
    if out:
        source, options = tmp_path / out, {}
        ktrace.convert(REPLAYS, source, capture=CAPTURE)
    shapes, names = (ktrace.summary(source, by=[by], **options).answers[by].rows for by in ("shape", "op"))
    assert {row.name: row.launched_own for row in shapes if row.launched_own} == {
        "aten::addmm [32, 4x64, 64x32]": 2,
        "SortTokens [4x8]": 4,
        "aiter::norm [4x32]": 2,
        "aten::add [4x32, 4x32]": 2,
        "aten::copy_ [4x32, 4x32]": 2,
        "aten::argmax [4x32]": 1,
    } | {row.name: row.launched_own for row in shapes if row.level is None}
    own = {row.name.partition(" [")[0]: row.own for row in shapes if row.level}
    assert own == {row.name: row.own for row in names if row.level}


def test_every_captured_operator_with_shapes_has_them() -> None:
    rows = {row.name: row for row in ktrace.summary(REPLAYS, by=["shape"], capture=CAPTURE).answers["shape"].rows}
    outer = [name for name in rows if name.startswith("aten::linear")]
    assert outer == ["aten::linear [4x64, 32x64, 32]"], list(rows)
    assert rows[outer[0]].total == rows["aten::addmm [32, 4x64, 64x32]"].total


def test_a_file_that_holds_the_capture_needs_no_option(tmp_path: Path) -> None:
    replays = json.loads(REPLAYS.read_text())["traceEvents"]
    both = changed(CAPTURE, tmp_path / "both.pt.trace.json", lambda events: [*events, *replays])
    found, report = operators(both)
    assert found == [None, *REPLAY, *REPLAY, None]
    assert report.issues["captured"].rows == 12
    assert report.balanced()
    assert operators(both, capture=both)[0] == found


def test_a_kernel_before_the_capture_does_not_matter(tmp_path: Path) -> None:
    replays = json.loads(REPLAYS.read_text())["traceEvents"]

    def first(events: Events) -> Events:
        return [*(one for one in events if one.get("cat") == "kernel"), *events, *replays]

    found, report = operators(changed(CAPTURE, tmp_path / "both.pt.trace.json", first))
    assert found == [None, None, *REPLAY, *REPLAY, None]
    assert "uncaptured" not in report.issues


def test_replays_far_before_their_capture_get_nothing_which_is_said(tmp_path: Path) -> None:
    parts: list[list[Batch]] = []
    for place, source in enumerate((REPLAYS, CAPTURE)):
        (tmp_path / str(place)).mkdir()
        path = changed(source, tmp_path / str(place) / "run.pt.trace.json", same)
        parts.append([one for one in read_batches([str(path)], ktrace.Report()) if one.record == "events"])
    later = []
    for batch in parts[1]:
        columns = batch.columns
        ids = pa.array(columns.column("id").to_numpy() + 1_000_000)
        later.append(Batch("events", columns.set_column(columns.schema.get_field_index("id"), "id", ids)))
    batches = [*parts[0], *later]
    report = ktrace.Report()
    found = list(with_own_captures(batches, lambda: iter(batches), report, Arrows()))
    assert sum(map(len, found)) == sum(map(len, batches))
    assert not any(batch.has("args.operator") for batch in found)
    assert "kernels before" in report.issues["uncaptured"].places[0][1]
    assert "captured" not in report.issues


def test_a_kernel_that_does_not_match_leaves_its_replay_alone(tmp_path: Path) -> None:
    def other(events: Events) -> None:
        next(one for one in events if one["name"] == "topk_sort_kernel")["name"] = "another_kernel"

    found, report = operators(changed(REPLAYS, tmp_path / "r.json", other), capture=CAPTURE)
    assert found == [None] * 6 + REPLAY + [None]
    assert report.issues["uncaptured"].rows == 6
    assert (
        report.issues["uncaptured"].places[0][1]
        == "no capture goes on to another_kernel after 4 of 6 device activities"
    )


def test_a_part_of_a_capture_is_a_replay_too(tmp_path: Path) -> None:
    def fewer(events: Events) -> Events:
        return [one for one in events if "norm" not in one["name"]]

    found, report = operators(changed(REPLAYS, tmp_path / "r.json", fewer), capture=CAPTURE)
    rest = [name for name in REPLAY if name != "aiter::norm"]
    assert found == [*rest, *rest, None]
    assert "uncaptured" not in report.issues


def test_a_capture_of_another_run_is_named(tmp_path: Path) -> None:
    other = changed(CAPTURE, tmp_path / "c.json", same, baseTimeNanoseconds=1_700_000_000_000_000_000)
    found, report = operators(REPLAYS, capture=other)
    assert found[:6] == REPLAY
    assert report.issues["other-run"].rows == 12


def test_a_file_without_a_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no capture of a graph"):
        ktrace.read(REPLAYS, capture=REPLAYS)
    with pytest.raises(InputError):
        ktrace.read(REPLAYS, capture=tmp_path / "nowhere.json")
    with pytest.raises(UsageError, match="capture"):
        ktrace.batch(REPLAYS, tmp_path / "set", selection=ktrace.Selection(capture=CAPTURE))
    _, report = operators(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", capture=CAPTURE)
    assert "no replay of a graph" in report.issues["uncaptured"].places[0][1]


def of_cuda(events: Events) -> None:
    """Calls without the names of kernels."""
    for one in events:
        one.get("args", {}).pop("kernel", None)


def test_calls_of_cuda_match_by_position_alone(tmp_path: Path) -> None:
    capture = changed(CAPTURE, tmp_path / "c.json", of_cuda)
    found, _ = operators(REPLAYS, capture=capture)
    assert found == [*REPLAY, *REPLAY, None]
    rows = ktrace.read(REPLAYS, capture=capture).to_arrow()["events"].to_pylist()
    assert sum('"operator_matched":"position"' in (row["args"] or "") for row in rows) == 12

    fewer = changed(
        REPLAYS, tmp_path / "fewer.json", lambda events: [one for one in events if "norm" not in one["name"]]
    )
    found, report = operators(fewer, capture=capture)
    assert set(found) == {None}
    assert "6 calls for 5 device activities" in report.issues["uncaptured"].places[0][1]

    def streams(events: Events) -> None:
        next(one for one in events if "norm" in one["name"])["args"]["stream"] = 4

    found, report = operators(changed(REPLAYS, tmp_path / "streams.json", streams), capture=capture)
    assert found == [None] * 6 + REPLAY + [None]
    assert "several streams" in report.issues["uncaptured"].places[0][1]

    other = changed(capture, tmp_path / "other.json", same, baseTimeNanoseconds=1)
    found, report = operators(REPLAYS, capture=other)
    assert set(found) == {None}
    assert "another run" in report.issues["uncaptured"].places[0][1]


@pytest.mark.parametrize("twice", [False, True])
def test_numbered_nodes_tell_the_calls_of_several_streams(tmp_path: Path, twice: bool) -> None:
    """The numbers rise as the nodes were captured, whatever the streams; one that occurs twice tells nothing."""

    def numbered(events: Events) -> None:
        launches = [one["args"]["correlation"] for one in events if "GraphLaunch" in one["name"]]
        for correlation in launches:
            work = [
                one for one in events if one["args"].get("correlation") == correlation and one["args"].get("stream")
            ]
            work.sort(key=lambda one: one["ts"])
            for number, one in enumerate(work, 1):
                one["args"] |= {"graph id": 3, "graph node id": 40 if twice else 40 + number, "stream": 3 + number % 2}
            work[1]["ts"] = work[-1]["ts"] + 1  # on its stream it runs last

    replays = changed(REPLAYS, tmp_path / "streams.json", numbered)
    capture = changed(CAPTURE, tmp_path / "c.json", of_cuda)
    found, report = operators(replays, capture=capture)
    moved = [*REPLAY[:1], *REPLAY[2:], REPLAY[1]]
    assert found == ([None] * 13 if twice else [*moved, *moved, None])
    assert ("uncaptured" in report.issues) is twice


@pytest.mark.parametrize("captured", [False, True])
def test_operators_of_replays_without_a_capture_are_asked_for(captured: bool) -> None:
    options = {"capture": CAPTURE} if captured else {}
    answers = ktrace.summary(REPLAYS, by=["op", "range"], **options).answers
    said = [note for note in answers["op"].notes if "--capture" in note]
    assert [note.split(" were replayed")[0] for note in said] == (
        [] if captured else ["12 device activities (57.750 us)"]
    )
    notes = ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json", by=["op"]).answers["op"].notes
    assert not any("--capture" in note for note in notes)


def test_the_command_takes_several_captures_and_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    shutil.copy(CAPTURE, folder / "rank0.json")
    for given in (["--capture", str(folder)], ["--capture", str(CAPTURE), "--capture", str(folder / "rank0.json")]):
        for command in (["summary", "--by", "op"], ["query", "SELECT args->>'operator' AS op FROM events"]):
            result = CliRunner().invoke(cli, [command[0], str(REPLAYS), *command[1:], *given])
            assert result.exit_code == 0, result.output
            assert "aten::addmm" in result.output
    result = CliRunner().invoke(cli, ["diff", str(REPLAYS), str(REPLAYS), "--by", "op", "--capture", str(CAPTURE)])
    assert result.exit_code == 0, result.output
    assert "aten::addmm" in result.output


def test_streams_share_the_calls_by_names_and_the_longest_run() -> None:
    assert fit((("a", "b"), ("c",)), ("a", "c", "b")) == ((0, 2), (1,))
    assert fit((("a", "c"), ("a", "b")), ("a", "b", "a", "c")) == ((2, 3), (0, 1))
    assert fit((("a", "b"),), ("x", "a", "y", "b")) == ((1, 3),)
    assert fit((("b", "a"),), ("a", "b")) is None
    assert fit(((COPY,),), (ANY,)) is None
    assert fit((("a", COPY),), (ANY, COPY)) == ((0, 1),)


RUN = Run(1, None)


def replay(*ids: int, size: int | None = None) -> Replay:
    return Replay((("a",) * len(ids),), (np.array(ids),), size, RUN)


def facts(replays: list[Replay], captures: list[Capture]) -> dict[int, dict[str, Any]]:
    found = matched(replays, captures)
    return {one: found.facts[number] for one, number in zip(found.ids.tolist(), found.numbers.tolist(), strict=True)}


def capture(operator: str, size: int | None = None, dims: str = "[]") -> Capture:
    return Capture(("a",), ({"operator": operator, "Input Dims": dims},), size, RUN)


def test_equal_captures_are_told_apart_by_batch_by_order_or_not_at_all() -> None:
    by_size = [capture("big", 64), capture("small", 32)]
    found = facts([replay(1, size=32), replay(2, size=40), replay(3, size=3)], by_size)
    assert [found[number]["operator"] for number in (1, 2, 3)] == ["small", "big", "small"]
    in_order = [capture("first"), capture("second")]
    found = facts([replay(number) for number in (1, 2, 3, 4)], in_order)
    assert [found[number]["operator"] for number in (1, 2, 3, 4)] == ["first", "second", "first", "second"]
    assert facts([replay(1)], in_order) == {1: {"Input Dims": "[]"}}
    assert facts([replay(1)], [capture("same", dims="[1]"), capture("same", dims="[2]")]) == {1: {"operator": "same"}}


def ns(event: dict[str, Any]) -> tuple[int, int]:
    return int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000)


def test_a_real_decode_trace_is_attributed_as_its_two_files_say() -> None:
    read = lambda path: json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]  # noqa: E731
    events = read(at_hand(REAL_CAPTURE))
    (begin,) = [one for one in events if one["name"] == "hipStreamBeginCapture"]
    (end,) = [one for one in events if one["name"] == "hipStreamEndCapture"]
    calls = [
        one
        for one in events
        if one.get("cat") == "cuda_runtime" and "kernel" in one["args"] and begin["ts"] < one["ts"] < end["ts"]
    ]
    ops = [(*ns(one), one["name"]) for one in events if one.get("cat") == "cpu_op" and one["tid"] == begin["tid"]]
    replayed = read(REAL_REPLAY)
    (launch,) = [one for one in replayed if one["name"] == "hipGraphLaunch"]
    number = launch["args"]["correlation"]
    kernels = [one for one in replayed if one.get("cat") == "kernel" and one["args"].get("correlation") == number]
    time, count = Counter[str](), Counter[str]()
    for call, kernel in zip(sorted(calls, key=ns), sorted(kernels, key=ns), strict=True):
        first, last = ns(call)
        assert call["args"]["kernel"] == kernel["name"]
        operator = max((one for one in ops if one[0] <= first and one[1] >= last), key=lambda one: (one[0], -one[1]))[2]
        time[operator] += int(kernel["dur"] * 1000)
        count[operator] += 1
    assert (time["vllm::moe_forward"], count["vllm::moe_forward"]) == (7_171_530, 72)
    assert (time["aten::addmm"], count["aten::addmm"]) == (953_882, 72)
    assert (time["vllm::unified_attention_with_output"], time["SortTokens"]) == (724_360, 375_127)
    assert (time["aiter::rmsnorm2d_fwd_with_add_ck"], time["_C::rotary_embedding"]) == (326_031, 149_735)

    summary = ktrace.summary(REAL_REPLAY, by=["op"], capture=REAL)
    rows = {row.name: (row.own, row.launched_own) for row in summary.answers["op"].rows}
    assert {name: rows[name] for name in time} == {name: (time[name], count[name]) for name in time}
    assert summary.report is not None
    assert summary.report.issues["captured"].rows == len(kernels) == 421
    assert not summary.report.issues.keys() & {"uncaptured", "other-run"}


def test_arrows_lead_from_captured_calls_of_the_same_input_to_what_replays_them(tmp_path: Path) -> None:
    replays = json.loads(REPLAYS.read_text())["traceEvents"]
    both = changed(CAPTURE, tmp_path / "both.pt.trace.json", lambda events: [*events, *replays])
    trace = ktrace.read(both)
    names = {row["id"]: row["name"] for row in trace.to_arrow()["events"].to_pylist()}
    kernels = {
        row["id"]: json.loads(row["args"])["kernel"]
        for row in trace.to_arrow()["events"].to_pylist()
        if row["kind"] == "api" and '"kernel"' in (row["args"] or "")
    }
    ends = [row for row in trace.to_arrow()["links"].to_pylist() if row["name"] == "captured call"]
    calls = {row["key"]: row["event"] for row in ends if row["role"] == "out"}
    arrows = [(calls[row["key"]], row["event"]) for row in ends if row["role"] == "in"]
    assert len(arrows) == 12, "six calls, two replays"
    pairs = [(demangled(kernels[call]), names[work]) for call, work in arrows if call in kernels]
    assert len(pairs) == 10, "all but the copy, whose call names no kernel"
    assert all(call == work for call, work in pairs)
    assert trace.report.balanced()
    (ledger,) = [one for one in trace.report.stages if one.stage == "own-captures"]
    assert ledger.added == {"arrows from captured calls": len(ends)}
    for out in ("x.perfetto", "x.parquet"):
        report = ktrace.convert(both, tmp_path / out)
        assert report.balanced()
    again = ktrace.read(tmp_path / "x.parquet").to_arrow()["links"].to_pylist()
    assert sum(row["name"] == "captured call" for row in again) == len(ends)


def test_a_capture_that_is_not_read_has_no_arrows() -> None:
    trace = ktrace.read(REPLAYS, capture=CAPTURE)
    assert "captured call" not in {row["name"] for row in trace.to_arrow()["links"].to_pylist()}


def test_arrows_lead_from_a_capture_among_the_inputs_to_what_replays_it(tmp_path: Path) -> None:
    trace = ktrace.read([REPLAYS, CAPTURE], capture=CAPTURE)
    rows = {(row["source"], row["id"]): row for row in trace.to_arrow()["events"].to_pylist()}
    ends = [row for row in trace.to_arrow()["links"].to_pylist() if row["link"] == "capture"]
    calls = {row["key"]: rows[row["source"], row["event"]] for row in ends if row["role"] == "out"}
    arrows = [(calls[row["key"]], rows[row["source"], row["event"]]) for row in ends if row["role"] == "in"]
    assert len(arrows) == 12, "six calls, two replays"
    assert {(call["source"], work["source"]) for call, work in arrows} == {
        ("graph-capture-of-rocm.pt.trace", "graph-replays-of-rocm.pt.trace")
    }
    kernels = [(json.loads(call["args"] or "{}").get("kernel"), work["name"]) for call, work in arrows]
    assert [demangled(kernel) for kernel, _ in kernels if kernel] == [name for kernel, name in kernels if kernel]
    assert trace.report.balanced()

    out = tmp_path / "both.json"
    ktrace.merge([REPLAYS, CAPTURE], out, to="chrome", capture=CAPTURE)
    drawn = [event for event in json.loads(out.read_text())["traceEvents"] if event.get("cat") == "capture"]
    assert [sum(event["ph"] == phase for event in drawn) for phase in "stf"] == [6, 6, 6]


def test_a_stage_of_perfetto_has_one_arrow_from_the_host_that_of_its_launch(tmp_path: Path) -> None:
    lost = {
        gpu: ktrace.merge([REPLAYS, CAPTURE], tmp_path / f"{gpu}.perfetto", capture=CAPTURE, gpu=gpu).issues
        for gpu in ("stages", "slices")
    }
    assert lost["stages"]["not-representable"].rows == 18, "six ends on calls, twelve on kernels"
    assert "not-representable" not in lost["slices"]
