"""XPlane files, compared with an independent reading: protobuf messages walked one by one, whole numbers only."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from xplane_samples import START, PlaneMaker, message, task

import ktrace
import ktrace.converters.xplane.layout
from ktrace.errors import DamagedInput, InputError, StrictFailure

FOLDER = SAMPLES / "xplane"
GPU = FOLDER / "streams-repeated-lines-counter-below-a-nanosecond.xplane.pb"
TPU = FOLDER / "tpu-loop-sums-lines-backwards-since-1970.xplane.pb"
HOSTS = FOLDER / "a-run-of-two-hosts"

REAL = sorted((SHARED / "corpus" / "xplane").glob("*.pb")) + sorted(
    (SHARED / "corpus" / "made" / "jax").glob("plugins/profile/*/*.pb")
)
#: Events, and the sum of their durations in ns, as jax.profiler.ProfileData of JAX 0.10.2 gives them.
PROFILE_DATA = {
    "jax_0.10_cpu.xplane.pb": (588, 72_462_479),
    "tw003.xplane.pb": (3650, 1_939_960_248),
    "vm.xplane.pb": (169, 53_593_414),
}

Fields = dict[int, list[Any]]


def fields(data: bytes) -> Fields:
    """The fields of a message, read without ktrace."""
    found: Fields = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            value: Any = number()
        elif tag & 7 == 1:
            value, at = data[at : at + 8], at + 8
        else:
            size = number()
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def half_even(ps: int) -> int:
    whole, rest = divmod(ps, 1000)
    return whole + (rest > 500 or (rest == 500 and whole % 2 == 1))


def independent(data: bytes) -> Counter[tuple[str, int, int]]:
    """Name, start and duration in ns of every event with a time."""
    found: Counter[tuple[str, int, int]] = Counter()
    for plane in map(fields, fields(data)[1]):
        entries = [fields(entry) for entry in plane.get(4, [])]
        names = {entry.get(1, [0])[-1]: fields(entry[2][-1]).get(2, [b""])[-1].decode() for entry in entries}
        for line in map(fields, plane.get(3, [])):
            begin = signed(line.get(3, [0])[-1])
            for event in map(fields, line.get(4, [])):
                key = event.get(1, [0])[-1]
                start, dur = (signed(event.get(number, [0])[-1]) for number in (2, 3))
                if 5 not in event and dur >= 0:
                    found[names.get(key) or f"[event {key}]", begin + half_even(start), half_even(dur)] += 1
    return found


def events(path: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path).to_arrow()["events"].to_pylist()
    ]


def slices(rows: list[dict[str, Any]]) -> Counter[tuple[str, int, int]]:
    return Counter((row["name"], row["ts"], row.get("dur") or 0) for row in rows)


@pytest.mark.parametrize("path", [GPU, TPU], ids=lambda path: path.name)
def test_names_and_times_are_those_of_the_wire(path: Path) -> None:
    assert slices(events(path)) == independent(path.read_bytes())


@pytest.mark.skipif(not REAL, reason="no ../shared/corpus/xplane")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_files_have_the_events_that_profile_data_gives(path: Path) -> None:
    trace = ktrace.read(path)
    rows = trace.to_arrow()["events"].to_pylist()
    count, total = PROFILE_DATA[path.name]
    assert len(rows) == trace.report.read == count
    assert sum(row.get("dur") or 0 for row in rows) == total
    assert slices(rows) == independent(path.read_bytes())
    assert not trace.report.issues


@pytest.mark.skipif(not REAL, reason="no ../shared/corpus/xplane")
def test_kernels_of_a_real_file_of_rocm() -> None:
    kernels = [row for row in events(REAL[1]) if row["kind"] == "kernel"]
    assert (len(kernels), sum(row["dur"] for row in kernels)) == (235, 28_137_077)
    assert Counter(row["device"] for row in kernels) == {0: 60, **dict.fromkeys(range(1, 8), 25)}
    first = kernels[0]
    assert (first["grid_x"], first["block_x"], first["stream"], first["correlation"]) == (16, 512, 17, 18)
    assert {row["shared_memory"] for row in kernels if row["name"].startswith("Cijk_")} == {49_280}


def test_work_on_streams_has_the_details_as_columns() -> None:
    rows = {row["name"]: row for row in events(GPU) if "stream" in row}
    copy, kernel = rows["MemcpyH2D"], [row for row in events(GPU) if row["kind"] == "kernel"]
    assert (copy["kind"], copy["copy_kind"], copy["bytes"], copy["stream"]) == ("memcpy", "HtoD", 4096, 13)
    assert [(row["ts"], row["dur"]) for row in kernel] == [(4002, 1500), (6000, 1500)]
    for row in kernel:
        assert [row[f"grid_{axis}"] for axis in "xyz"] + [row["block_x"], row["registers"]] == [80, 2, 1, 256, 40]
        assert (row["shared_memory"], row["shared_dynamic"], row["occupancy"]) == (3072, 2048, 62.5)
    assert (kernel[0]["context"], kernel[0]["correlation"]) == (1, 71)
    assert '"hlo_op":"fusion.3"' in kernel[0]["args"] and '"$offset_ps":3001500' in kernel[0]["args"]
    assert (rows["Memset"]["kind"], rows["Memset"]["bytes"]) == ("memset", 512)
    assert (rows["MemoryAlloc"]["kind"], rows["MemoryAlloc"]["bytes"]) == ("alloc", 65_536)


def test_lines_that_repeat_streams_are_ranges_and_not_counted_twice() -> None:
    rows = events(GPU)
    ranges = {row["track"] for row in rows if row["kind"] == "range" and "device" in row}
    assert ranges == {"Steps", "XLA Modules", "XLA Ops", "Framework Ops"}
    work = sum(row["dur"] for row in rows if row["kind"] in ("kernel", "memcpy", "memset"))
    assert work == 2000 + 2 * 1500 + 250
    assert ktrace.summary(GPU).total == work


def test_the_host_has_calls_allocations_and_instants() -> None:
    host = [row for row in events(GPU) if row.get("pid") == 4242]
    assert Counter(row["kind"] for row in host) == {"api": 3, "alloc": 2, "range": 1, "instant": 1}
    assert [row["bytes"] for row in host if row["kind"] == "alloc"] == [256, -256]
    assert {row["tid"] for row in host} == {583, -5}


def test_operations_of_tensorflow_are_known_by_their_names(tmp_path: Path) -> None:
    names = ("dense/MatMul:MatMul", "Pool::Record", "EagerLocalExecute: Mul", "NVTX:Step", "a b:C")
    plane = PlaneMaker("/host:CPU")
    plane.line(3, "thread", 7, *(plane.event(name, number * 2000, 1000) for number, name in enumerate(names)))
    path = tmp_path / "tf.xplane.pb"
    path.write_bytes(plane.made())
    assert [row["kind"] for row in events(path)] == ["op", "range", "range", "range", "range"]


def test_counters_have_the_value_of_their_stat() -> None:
    rows = [row for row in events(GPU) if row["name"] == "power_mw"]
    assert [(row["kind"], row.get("value")) for row in rows] == [
        ("counter", 71_500.0),
        ("counter", 80_250.5),
        ("instant", None),
    ]


def test_the_operations_of_a_core_are_kernels_and_its_loop_is_not() -> None:
    rows = events(TPU)
    kinds = {row["name"].split(" ")[0]: row["kind"] for row in rows}
    assert kinds["%while.1"] == "range" and kinds["%fusion.7"] == kinds["gather.1"] == "kernel"
    assert kinds["copy-start.2"] == kinds["step"] == "range"
    fusions = [row for row in rows if row.get("short_name") == "fusion.7"]
    assert [row["ts"] - START for row in fusions] == [2101, 4200, 8000, 11_000]
    assert ['"flops":32768' in row["args"] for row in fusions] == [False, True, False, False]
    assert sum('"flops":16384' in row["args"] for row in fusions) == 3
    assert r'"source_stack":"model.py:3\nmain.py:8"' in fusions[0]["args"]


def test_sums_are_summaries() -> None:
    (row,) = ktrace.read(TPU).to_arrow()["summaries"].to_pylist()
    assert (row["kind"], row["count"], row["total"], row["unit"]) == ("kernel", 12, 90_000.0, "ns")
    assert row["scope"] == ["/device:TPU:0", "XLA Ops"]


def test_what_is_wrong_in_a_file_is_reported() -> None:
    report = ktrace.read(TPU).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {
        "negative-duration": 1,
        "missing-string": 1,
        "rounded": 4,
        "capture-warning": 1,
    }
    assert "some events were dropped" in report.issues["capture-warning"].places[0][1]


def test_a_folder_is_one_trace_of_all_hosts_on_the_first_ones_clock() -> None:
    trace = ktrace.read(HOSTS)
    rows = trace.to_arrow()["events"].to_pylist()
    assert [(row["host"], row["ts"]) for row in rows] == [("node-a", 3000), ("node-b", 2_002_500)]
    repeats = trace.report.issues["same-run"]
    assert {Path(where).name for where, _ in repeats.places} == {"node-a.trace.json", "perfetto_trace.json"}
    for part in ("plugins", "plugins/profile", "plugins/profile/2026_01_02_03_04_05"):
        assert len(ktrace.read(HOSTS / part).to_arrow()["events"]) == 2


@pytest.mark.parametrize("host", ["node-a", "node-b"])
@pytest.mark.parametrize("data", [b"", b"not a profile", b"\x0a\xef\xbf\xbd\xef\xbf\xbd" * 40])
def test_a_bad_file_of_a_folder_is_left_out_and_said(tmp_path: Path, host: str, data: bytes) -> None:
    run = tmp_path / "run"
    shutil.copytree(next(HOSTS.glob("plugins/profile/*")), run)
    assert "bad-file" not in ktrace.read(run).report.issues
    (run / f"{host}.xplane.pb").write_bytes(data)
    trace = ktrace.read(run)
    whole = ktrace.read(HOSTS).to_arrow()["events"].to_pylist()
    (left,) = trace.to_arrow()["events"].to_pylist()
    assert left["host"] != host
    assert left["dur"] == next(row["dur"] for row in whole if row["host"] != host)
    ((where, why),) = trace.report.issues["bad-file"].places
    assert Path(where).name == f"{host}.xplane.pb"
    assert why
    assert trace.report.balanced()
    with pytest.raises(StrictFailure, match=f"{host}.xplane.pb"):
        ktrace.convert(run, tmp_path / "run.jsonl", strict=True)
    for path in run.glob("*.xplane.pb"):
        path.write_bytes(data)
    with pytest.raises(DamagedInput):
        ktrace.read(run)


def test_a_log_folder_with_several_runs_asks_for_one(tmp_path: Path) -> None:
    for run in ("one", "two"):
        shutil.copytree(next(HOSTS.glob("plugins/profile/*")), tmp_path / "plugins" / "profile" / run)
    with pytest.raises(InputError, match="2 runs: plugins/profile/one, plugins/profile/two"):
        ktrace.read(tmp_path)


def test_events_of_a_host_without_its_xplane_file_are_reported(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(next(HOSTS.glob("plugins/profile/*")), run)
    (run / "node-a.trace.json").rename(run / "node-c.trace.json")
    report = ktrace.read(run).report
    assert report.issues["unrecognised"].places == [("node-c.trace.json", "there is no XPlane file of node-c")]
    assert report.reader.balanced()


def test_a_folder_with_other_traces_isnt_taken_as_one(tmp_path: Path) -> None:
    shutil.copytree(HOSTS, tmp_path / "jax")
    (tmp_path / "other.json").write_text('{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]}')
    assert "other" in {row["source"] for row in ktrace.read(tmp_path).to_arrow()["events"].to_pylist()}


def test_a_file_that_was_read_as_text_is_refused(tmp_path: Path) -> None:
    plane = PlaneMaker("/device:TPU:0")
    plane.line(2, "XLA Ops", START, *(plane.event("fusion", number * 987_654, 1_234_567) for number in range(99)))
    path = tmp_path / "text.xplane.pb"
    path.write_bytes(plane.made().decode("utf-8", "replace").encode())
    with pytest.raises(DamagedInput, match=r"saved as text.*U\+FFFD"):
        ktrace.read(path)


def test_damage_within_a_plane_leaves_the_others(tmp_path: Path) -> None:
    good, bad = PlaneMaker("/device:GPU:0"), PlaneMaker("/device:GPU:1")
    good.line(1, "Stream #1(Kernel)", 5, good.event("k", 1000, 1000))
    bad.line(1, "Stream #1(Kernel)", 5, bad.event("k", 1000, 1000), b"\x0f\x0f", bad.event("k", 1000, 1000))
    path = tmp_path / "damaged.xplane.pb"
    path.write_bytes(bad.made() + good.made())
    trace = ktrace.read(path)
    assert [(row["device"], row["name"]) for row in trace.to_arrow()["events"].to_pylist()] == [(1, "k"), (0, "k")]
    assert trace.report.issues["bad-record"].rows == 1 and trace.report.reader.balanced()


def test_a_cut_is_reported_once_and_what_is_before_it_is_read(tmp_path: Path) -> None:
    plane = PlaneMaker("/host:CPU", first=True)
    plane.line(3, "thread", 7, *(plane.event("k", number * 2000, 1000) for number in range(9)))
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(plane.made()[:-4])
    trace = ktrace.read(path)
    assert len(trace.to_arrow()["events"]) == 8
    assert (trace.report.issues["cut"].rows, trace.report.read) == (1, 9)


@pytest.mark.parametrize("left", range(5))
def test_a_cut_in_an_event_loses_that_event_alone(left: int, tmp_path: Path) -> None:
    """Also between its tag and its length, which had cost all events of its line."""
    name = message((1, 1), (2, message((1, 1), (2, "kernel"))))
    events = [(4, message((1, 1), (2, number * 10**6), (3, 5 * 10**5))) for number in range(100)]
    line = message((1, 1), (2, "Stream #1"), (3, 1000), *events)
    whole = message((1, message((2, "/device:GPU:0"), (4, name), (3, line))))
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(whole[: len(whole) - len(message(events[-1])) + left])
    trace = ktrace.read(path)
    assert len(trace.events) == 99
    assert trace.report.issues["cut"].rows == 1


def test_names_may_come_first_or_last_and_the_file_compressed(tmp_path: Path) -> None:
    found = []
    for first in (False, True):
        plane = PlaneMaker("/device:GPU:0", first=first)
        plane.line(3, "Stream #3(Kernel)", 7, plane.event("k", 1000, 1000, plane.stat("hlo_op", 7, "dot")))
        path = tmp_path / f"{first}.xplane.pb.gz"
        path.write_bytes(gzip.compress(plane.made() + task(START)))
        found.append([{**row, "source": ""} for row in events(path)])
    assert found[0] == found[1] and '"hlo_op":"dot"' in found[0][0]["args"]


def test_an_operation_that_encloses_one_of_the_next_block_is_a_range(tmp_path: Path) -> None:
    plane = PlaneMaker("/device:TPU:0")
    short = [plane.event("a", number * 2_000, 1_000) for number in range(65_535)]
    last = 65_535 * 2_000
    plane.line(2, "XLA Ops", 1, *short, plane.event("loop", last, 9_000_000), plane.event("body", last + 5_000, 1_000))
    path = tmp_path / "long.xplane.pb"
    path.write_bytes(plane.made())
    kinds = {row["name"]: row["kind"] for row in events(path)}
    assert kinds == {"a": "kernel", "loop": "range", "body": "kernel"}


@pytest.mark.parametrize("block", range(40, 60))
def test_events_are_found_wherever_a_block_ends(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ktrace.converters.xplane.layout, "_BLOCK", block)
    plane = PlaneMaker("/host:CPU")
    mixed = [plane.event("k", 1 << number, 1, plane.stat("text", 5, "x" * number)) for number in range(40)]
    plane.line(3, "thread", 7, *mixed, shown="t")
    path = tmp_path / "blocks.xplane.pb"
    path.write_bytes(plane.made())
    assert slices(events(path)) == independent(path.read_bytes())


def test_a_file_without_any_plane_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.xplane.pb"
    path.write_bytes(message((4, "node")))
    with pytest.raises(DamagedInput, match="isn't an XPlane file"):
        ktrace.read(path, from_="xplane")
