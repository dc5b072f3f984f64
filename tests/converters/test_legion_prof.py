"""Legion Prof's logs against a plain parser of their records; the real log was recorded with Legate 26.6.1 on a CPU."""

from __future__ import annotations

import gzip
import json
import re
import struct
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from legion_samples import CPU, DESCRIBED, FRAMEBUFFER, GPU, SYSTEM, description, record, sample, times

import ktrace
from ktrace.errors import DamagedInput
from ktrace.input.detection import detect
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

MADE = SAMPLES / "legion-prof" / "two-gpus-names-late-a-reduction.prof"
REAL = SAMPLES / "real/corpus/made/legate/reductions-and-copies.prof"


def records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The records of a log by its own description."""
    data, found, dimensions = path.read_bytes(), [], 0
    at = data.index(b"\n\n") + 2
    kinds = {
        int(number): (name, re.findall(r", (\w+):([^:,{}]+):(-?\d+)", fields))
        for name, number, fields in re.findall(r"^(\w+) \{id:(\d+)(.*)\}$", data[:at].decode(), re.MULTILINE)
    }
    while at < len(data):
        name, fields = kinds[struct.unpack_from("<I", data, at)[0]]
        at += 4
        values: dict[str, Any] = {}
        for own, kind, size in fields:
            if own == "redop" and values["mode"] != 4:
                continue
            length = int(size)
            if length < 0:
                length = data.index(b"\0", at) - at + 1
            elif kind in ("array", "point"):
                length *= dimensions * (2 if kind == "array" else 1)
            elif kind == "uuid":
                length = values["uuid_size"]
            part = data[at : at + length]
            values[own] = part[:-1].decode() if size == "-1" else int.from_bytes(part, "little")
            at += length
        dimensions = values.get("max_dim", dimensions)
        found.append((name, values))
    assert at == len(data)
    return found


def written(folder: Path, *parts: bytes) -> Trace:
    """The trace of some records."""
    (folder / "app_0.prof").write_bytes(description() + b"".join(parts))
    return ktrace.read(folder / "app_0.prof")


@pytest.mark.parametrize("path", [MADE, REAL], ids=lambda path: path.stem)
def test_durations_by_name_are_those_of_the_records(path: Path) -> None:
    found = records(path)
    tasks = {values["task_id"]: values["name"] for name, values in found if name == "TaskVariant"}
    described = ("MetaDesc", "RuntimeCallDesc", "MapperCallDesc")
    kinds = {(name, values["kind"]): values["name"] for name, values in found if name in described}
    named = [values for name, values in found if name == "TaskKind"]
    tasks |= {values["task_id"]: values["name"] for values in named if values["overwrite"]}
    tasks = {one["task_id"]: one["name"] for one in named if one["task_id"] not in tasks} | tasks
    wanted: Counter[tuple[str, str]] = Counter()
    for name, values in found:
        took = values.get("stop", 0) - values.get("start", 0)
        if took < 0:
            continue
        if name in ("TaskInfo", "ImplicitTaskInfo", "GPUTaskInfo"):
            wanted["task", tasks.get(values["task_id"], f"task {values['task_id']}")] += took
        elif name in ("MetaInfo", "MessageInfo"):
            wanted["meta task", kinds.get(("MetaDesc", values["lg_id"]), f"meta task {values['lg_id']}")] += took
        elif name in ("RuntimeCallInfo", "MapperCallInfo"):
            cat = {"R": "runtime call", "M": "mapper call"}[name[0]]
            wanted[cat, kinds[name.replace("Info", "Desc"), values["kind"]]] += took
        elif name in ("CopyInfo", "FillInfo"):
            wanted[{"C": "copy", "F": "fill"}[name[0]], "bytes"] += values["size"]
            wanted[{"C": "copy", "F": "fill"}[name[0]], "ns"] += took
    events = ktrace.read(path).events
    sums = events.groupby(["cat", "name"], observed=True).dur.sum()
    assert {
        key: total for key, total in sums.items() if key[0].endswith(("task", "call")) and key[0] != "application call"
    } == ({key: total for key, total in wanted.items() if key[1] not in ("bytes", "ns")})
    assert set(events[events.cat == "task"].kind) == {"op"}
    assert set(events[events.cat == "meta task"].kind) == {"overhead"}
    for cat in ("copy", "fill"):
        moved = events[events.cat == cat]
        assert (moved.bytes.sum(), moved.dur.sum()) == (wanted[cat, "bytes"], wanted[cat, "ns"])


def test_a_real_log_is_read_to_its_end() -> None:
    trace, found = ktrace.read(REAL), records(REAL)
    assert trace.report.reader.taken == len(found) == 2_003
    assert trace.report.reader.balanced()
    assert set(trace.report.issues) == {"unknown-field"}
    waits = [values for name, values in found if name in ("TaskWaitInfo", "MetaWaitInfo")]
    mine = trace.events[trace.events.kind == "sync"]
    assert mine.dur.sum() == sum(values["wait_end"] - values["wait_start"] for values in waits)
    assert mine.tid.notna().all(), "each follows its task"
    (process,) = (values["process_id"] for name, values in found if name == "MachineDesc")
    assert set(trace.events[trace.events.tid.notna()].pid) == {process}
    memory: defaultdict[str, int] = defaultdict(int)
    for track, size in trace.events[trace.events.kind == "alloc"][["track", "bytes"]].values.tolist():
        memory[track] += size
    alive = [values for name, values in found if name == "InstTimelineInfo" and values["destroy"] >= 1 << 62]
    assert sum(memory.values()) == sum(values["size"] for values in alive)


def test_work_of_gpus_is_on_their_devices() -> None:
    """By the order of the processors' ids, whatever the order of their records; a task without such times has none."""
    trace = ktrace.read(MADE)
    events = trace.events
    kernels = events[events.kind == "kernel"][["name", "device", "ts", "dur", "correlation"]]
    assert kernels.values.tolist() == [["saxpy", 1, 22_000, 9_000, 21]]
    assert events[(events.cat == "task") & (events.correlation == 21)][["tid", "ts", "dur"]].values.tolist() == [
        [3, 20_000, 4_000]
    ]
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert [json.loads(facts)["uuid"][:4] for facts in devices.sort_values("device").facts] == ["0001", "0f0e"]
    moved = events[events.cat.isin(["copy", "fill"])][["kind", "name", "bytes", "copy_kind"]].astype(object)
    assert moved.where(moved.notna(), None).values.tolist() == [
        ["memcpy", "copy", 65_536, "HtoD"],
        ["range", "copy", 512, "HtoH"],
        ["range", "copy", 7, None],
        ["memset", "fill", 65_536, None],
    ]


def test_a_provenance_is_said_where_it_is_known() -> None:
    rows = ktrace.read(MADE).events
    found = [json.loads(args).get("provenance") for args in rows[rows.cat == "task"].args]
    assert found == [None, "app.py:12", None, None]
    assert rows[rows.cat == "application call"].name.tolist() == ["app.py:12"]


def test_an_instance_is_freed_if_the_log_says_so(tmp_path: Path) -> None:
    made = [
        record("InstTimelineInfo", inst_uid=1, mem_id=SYSTEM, size=10, create=5, destroy=9),
        record("InstTimelineInfo", inst_uid=2, mem_id=FRAMEBUFFER, size=20, create=6, destroy=0),
        record("InstTimelineInfo", inst_uid=3, mem_id=FRAMEBUFFER, size=30, create=(1 << 64) - 1),
    ]
    trace = written(tmp_path, record("MemDesc", mem_id=SYSTEM, kind=2), *made)
    assert trace.events[["kind", "ts", "bytes", "track"]].values.tolist() == [
        ["alloc", 5, 10, "System memory 0 of node 0"],
        ["alloc", 9, -10, "System memory 0 of node 0"],
        ["alloc", 6, 20, "Unknown memory 1 of node 0"],
    ]
    assert trace.report.issues["time-range"].rows == 1


def test_versions_with_other_fields(tmp_path: Path) -> None:
    """Records are found by their names: with more fields, in another order, of another size, or with too few."""
    kinds = {
        "TaskInfo": (7, "extra:double:8, stop:time:8, start:time:8, proc_id:ProcID:8, task_id:T:4, op_id:U:8"),
        "MetaInfo": (8, "op_id:UniqueID:8"),
        "Future": (9, "what:string:-1, odd:thing:3"),
    }
    path = tmp_path / "other.prof"
    task = struct.pack("<IdQQQIQ", 7, 1.5, 90, 40, CPU, 55, 3)
    path.write_bytes(description(kinds, "1.0") + task + struct.pack("<IQ", 8, 3) + b"\x09\0\0\0text\0abc" + task)
    trace = ktrace.read(path)
    assert trace.events[["name", "ts", "dur", "tid"]].values.tolist() == [["task 55", 40, 50, 0]] * 2
    assert {kind: issue.rows for kind, issue in trace.report.issues.items()} == {"bad-record": 1, "unknown-field": 0}
    assert trace.report.issues["unknown-field"].places == [("Future", "1 record")]


@pytest.mark.parametrize("size", [1, 3, 5, 40, 700, 2_000])
def test_what_is_whole_of_a_cut_log_is_read(size: int, tmp_path: Path) -> None:
    path, data = tmp_path / "cut.prof", sample()
    path.write_bytes(data[:-size])
    report = ktrace.read(path).report
    assert report.issues["cut"].rows == 0
    assert "isn't whole" in report.issues["cut"].places[0][1]
    assert report.balanced()
    assert report.reader.taken < 46


def test_a_record_that_is_not_described_ends_the_log(tmp_path: Path) -> None:
    trace = written(tmp_path, record("FillInfo", size=1, **times(500, 600)), struct.pack("<I", 4_000), bytes(50))
    assert len(trace.events) == 1
    assert "record of kind 4000, which isn't described" in trace.report.issues["cut"].places[0][1]


@pytest.mark.parametrize(
    "text",
    [b"FileType: BinaryLegionProf v: 1011\n", b"FileType: BinaryLegionProf v: 1011\nTaskInfo {id:18, op_id:U:8}\n",
     b"FileType: BinaryLegionProf v: 1011\nA {id:1, b:c:999999999}\n\n" + bytes(9)],
)  # fmt: skip
def test_a_description_that_cannot_be_used_is_refused(text: bytes, tmp_path: Path) -> None:
    path, out = tmp_path / "bad.prof", tmp_path / "out.parquet"
    path.write_bytes(text)
    with pytest.raises(DamagedInput, match="records") as caught:
        ktrace.convert(path, out)
    assert (caught.value.path, caught.value.remedy) == (str(path), "record it again")
    assert not out.exists()


def test_packed_logs_and_their_recognition(tmp_path: Path) -> None:
    assert detect(MADE)[0].format == detect(REAL)[0].format == "legion-prof"
    packed = tmp_path / "app_0.prof.gz"
    packed.write_bytes(gzip.compress(MADE.read_bytes()))
    assert len(ktrace.read(packed).events) == len(ktrace.read(MADE).events)


def test_memory_does_not_grow_with_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.legion_prof.log._BLOCK", 1 << 12)
    one = record("TaskInfo", op_id=3, task_id=DESCRIBED["TaskInfo"][0], proc_id=GPU, **times(500, 600))
    ktrace.read(MADE)  # imports
    peaks = []
    for count in (1_000, 3_000):
        path = tmp_path / f"{count}.prof"
        path.write_bytes(description() + one * count)
        tracemalloc.start()
        for _ in read_batches([str(path)], Report(), batch_rows=250, format="legion-prof"):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
