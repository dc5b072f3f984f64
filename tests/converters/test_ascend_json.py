"""Ascend's timelines against the module json; the samples are synthetic."""

from __future__ import annotations

import json
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.cli import cli
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

REAL = SHARED / "corpus" / "ascend" / "msprof_1_0_6.json"
TWO = SAMPLES / "ascend-json" / "two-npus-and-a-collective.json"
OLD = SAMPLES / "ascend-json" / "msprof-since-boot.json"
DISPLAY = SAMPLES / "ascend-json" / "mindspore-display.json"

#: Types of tasks in the files here that are no work of the device.
SYNC = {"NOTIFY_WAIT", "NOTIFY_RECORD", "EVENT_RECORD", "EVENT_WAIT", "EVENT_RESET"}
HCCL = 1004411
COPIES = {"MEMCPY_ASYNC", "REDUCE_ASYNC_V2"}


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def ns(microseconds: Any) -> int:
    """Whole ns of µs, half to even."""
    return int((Decimal(str(microseconds)) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


def kind_of(event: dict[str, Any]) -> str | None:
    """The kind of a task by its type, None for other slices."""
    task = event.get("args", {}).get("Task Type")
    if task is None:
        return None
    return "sync" if task in SYNC else "memcpy" if task in COPIES else "kernel"


def operator(event: dict[str, Any]) -> bool:
    """Whether it is the communication operator of the real file."""
    return event["pid"] == HCCL and "task type" not in event.get("args", {})


def place(event: dict[str, Any]) -> int | None:
    """The stream or thread; the operator is on a track of its device."""
    return None if operator(event) else event["tid"]


def summary(path: Path) -> dict[str, Any]:
    """What `ktrace summary --full` says, as JSON."""
    done = CliRunner().invoke(cli, ["summary", str(path), "--full", "--format", "json"])
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def real() -> Path:
    if not REAL.exists():
        pytest.skip("the real file is not at hand (../shared/corpus/ascend)")
    return REAL


def test_every_slice_of_the_real_file_is_there_to_the_ns(real: Path) -> None:
    events = [event for event in json.loads(real.read_text(), parse_float=str) if event["ph"] == "X"]
    found = rows(ktrace.read(real))
    hardware = 3
    ours = Counter(
        (row["name"], row.get("stream", row.get("tid")), row["ts"], row["dur"], "device" in row) for row in found
    )
    theirs = Counter(
        (event["name"], place(event), ns(event["ts"]), ns(event["dur"]), event["pid"] == hardware or operator(event))
        for event in events
    )
    assert ours == theirs
    assert len(found) == 1097


def test_device_work_of_the_real_file_is_counted_once(real: Path) -> None:
    """The collective is one kernel; its tasks, which HCCL's planes list by stream, id and time, are ranges."""
    events = [event for event in json.loads(real.read_text(), parse_float=str) if event["ph"] == "X"]
    tasks = {
        (args["stream id"], args["task id"], event["ts"])
        for event in events
        if "task type" in (args := event.get("args", {}))
    }
    expected, total = Counter[str](), 0
    for event in events:
        kind, args = kind_of(event), event.get("args", {})
        if kind == "memcpy" and (args["Stream Id"], args["Task Id"], event["ts"]) in tasks:
            kind = None
        if kind := "kernel" if operator(event) else kind:
            expected[kind] += 1
            total += ns(event["dur"]) if kind != "sync" else 0
    found = rows(ktrace.read(real))
    work = Counter(row["kind"] for row in found if row["kind"] in ("kernel", "memcpy", "memset", "sync"))
    assert work == expected
    assert expected == {"kernel": 139 + 1, "memcpy": 59 - 57, "sync": 292}
    assert sum(row["dur"] for row in found if row["kind"] in ("kernel", "memcpy")) == total


@pytest.mark.parametrize("name", ["corpus/ascend/msprof_1_0_6.json", "hunt/ascend/mi/msprof_0_2_1.json"])
def test_exposed_communication_is_what_msprof_computed(name: str) -> None:
    """Its analysis of overlaps has communication without compute, compute, and free time within the same span."""
    path = SHARED / name
    if not path.exists():
        pytest.skip("the real file is not at hand (../shared)")
    events = json.loads(path.read_text(), parse_float=str)
    theirs = Counter[str]()
    layer = next(event["pid"] for event in events if event.get("args", {}).get("name") == "Overlap Analysis")
    for event in events:
        if event["pid"] == layer and event["ph"] == "X":
            theirs[event["name"]] += ns(event["dur"])
    [row] = summary(path)["tables"]["devices"]
    assert row["exposed_communication_ns"] == theirs["Communication(Not Overlapped)"]
    assert row["compute_ns"] == theirs["Computing"]
    assert row["exposed_copies_ns"] + row["idle_ns"] == theirs["Free"]


def test_layers_streams_and_correlation() -> None:
    trace = ktrace.read(TWO)
    found = {(row["name"], row.get("device")): row for row in rows(trace)}
    kernel = found["aclnnMatmul_MatMulCommon_MatMulV2", 1]
    assert (kernel["kind"], kernel["stream"], kernel["correlation"]) == ("kernel", 2, 41)
    assert (kernel["ts"], kernel["dur"]) == (1760000040000055204, 33125)
    launch = found["Node@launch", None]
    assert (launch["kind"], launch["correlation"], launch["dur"]) == ("api", 41, 9500)
    assert "correlation" not in found["SDMA_SQE", 1]
    assert "correlation" not in found["aclnnAdd_AddAiCore_Add", 1]
    copy = found["MEMCPY_ASYNC", 1]
    assert (copy["copy_kind"], copy["bytes"], copy["dur"]) == ("HtoD", 4096, 4500)
    assert found["aicpu_topk", 3]["kind"] == "kernel"
    operator = found["aten::mm", None]
    assert (operator["kind"], operator["pid"], operator["tid"]) == ("op", 5120 << 10, 5121)
    assert json.loads(operator["args"])["Input Dims"] == "8,16;16,4"
    assert json.loads(found["aicpu_topk", 3]["args"])["Task Id"] == 6
    counters = Counter((row["name"], row["value"]) for row in rows(trace) if row["kind"] == "counter")
    assert sorted(value for _, value in counters.elements()) == [1000.0, 1234.5, 1850.0]
    for repeated in ("Notify_Wait", "Memcpy", "Computing", "Free"):
        assert found[repeated, None]["kind"] == "range"
    assert found["SDMA_SQE", 1]["kind"] == "range"
    collective = found["hcom_allReduce__123_0_1", 1]
    assert (collective["kind"], collective["track"], collective["comm"]) == ("kernel", "Communication", "123")
    assert (collective["dur"], collective["correlation"]) == (71000, 44)
    assert not {"pid", "tid", "stream"} & collective.keys()


def test_flows_that_repeat_the_correlation_are_folded_only_with_their_calls(tmp_path: Path) -> None:
    """torch_npu prunes the calls of the level Node at low levels: then only the flow joins a task to a call."""
    ends = Counter((row["link"], row["role"]) for row in rows(ktrace.read(TWO), "links"))
    assert ends == {("flow", "out"): 1, ("flow", "in"): 1, ("async", "out"): 1, ("async", "in"): 1}
    pruned = tmp_path / "trace_view.json"
    pruned.write_text(TWO.read_text().replace("Node@launch", "AscendCL@run"))
    launches = [row for row in rows(ktrace.read(pruned), "links") if row["link"] == "launch"]
    assert Counter(row["role"] for row in launches) == {"out": 3, "in": 3}
    assert {row["device"] for row in launches if row["role"] == "in"} == {1}


def test_msprof_since_boot() -> None:
    trace = ktrace.read(OLD)
    found = rows(trace)
    kinds = Counter((row["kind"], row.get("device")) for row in found)
    assert kinds == {
        ("kernel", 0): 4,
        ("sync", 0): 2,
        ("overhead", 0): 1,
        ("range", 0): 2,
        ("range", None): 3,
        ("api", None): 1,
    }
    assert sum(row["dur"] for row in found if row["kind"] == "kernel") == 41750 + 24000
    clocks = [json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "clock"]
    assert clocks == [{"kind": "boottime"}]


def test_times_in_quotes_are_no_damage(tmp_path: Path) -> None:
    report = ktrace.convert(TWO, tmp_path / "out.jsonl", strict=True)
    assert "text-number" not in report.issues


def test_display_of_mindspore() -> None:
    found = rows(ktrace.read(DISPLAY))
    ours = [(row["kind"], row["name"], row.get("device"), row.get("stream"), row["ts"], row["dur"]) for row in found]
    assert sorted(row for row in ours if row[0] == "kernel") == [
        ("kernel", "Cast-op4", 2, 519, 12340, 3100),
        ("kernel", "MatMul-op6", 2, 520, 20000, 30000),
    ]
    assert Counter(row[0] for row in ours) == {"kernel": 2, "range": 2}


LAYER = '{"name":"process_name","pid":7,"args":{"name":"Ascend Hardware"},"ph":"M"}'


@pytest.mark.parametrize(
    "odd",
    [
        '{"name":"process_name","pid":"x","args":[],"ph":"M"}',
        '{"name":"process_name","ph":"M","pid":1e99,"args":{"name":"Ascend Hardware"}}',
        '{"ph":"X","pid":7,"name":"a","ts":"x"}',
        '{"ph":"X","pid":7,"tid":"q","name":"a","ts":"1.5","dur":1,"args":{"Task Type":5,"connection_id":"z"}}',
    ],
)
def test_odd_values_are_kept_or_reported(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text(f"[{LAYER},{odd}]")
    report = ktrace.read(path, from_="ascend-json").report
    assert report.reader.taken == 2
    assert report.balanced


def test_a_folder_is_its_timeline(tmp_path: Path) -> None:
    folder = tmp_path / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir()
    (folder / "trace_view.json").write_text(TWO.read_text())
    (folder / "kernel_details.csv").write_text(
        "Name,Type,Accelerator Core,Start Time(us),Duration(us)\na,b,AI_CORE,1,1\n"
    )
    trace = ktrace.read(tmp_path)
    assert Counter(row["kind"] for row in rows(trace)) == Counter(row["kind"] for row in rows(ktrace.read(TWO)))
    assert trace.report.issues["same-run"].rows == 1


@pytest.mark.parametrize(("number", "said"), [("18446744073709551615", False), ("18446744073709551614", True)])
def test_no_call_as_a_number_without_a_sign_is_no_misfit(tmp_path: Path, number: str, said: bool) -> None:
    """msprof writes -1 so for one task of nearly every trace; any other number of this size would be damage."""
    event = '{"ph":"X","pid":7,"tid":2,"name":"k","ts":"1.5","dur":1,"args":{"Task Type":"AI_CORE","connection_id":?}}'
    path = tmp_path / "msprof_1.json"
    path.write_text("[" + ",".join([LAYER, event.replace("?", "8"), event.replace("?", number)]) + "]", "utf-8")
    trace = ktrace.read(path, from_="ascend-json")
    assert trace.events["correlation"].dropna().tolist() == [8]
    assert ("misfit" in trace.report.issues) == said
