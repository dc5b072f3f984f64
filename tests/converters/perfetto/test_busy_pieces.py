"""The busy pieces of devices: what a viewer's overview shows, as exact as the kernels that they are made of."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import engine
import numpy as np
import pytest
from conftest import SAMPLES
from perfetto_reference import Trace
from real_traces import NSYS, at_hand

import ktrace
from ktrace.converters.perfetto.sidecar import DERIVED_SEQUENCES
from ktrace.converters.perfetto.writing import busy_pieces, kernel_counters

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"

PIECES = (
    "select s.ts, s.dur, s.name, t.tid, p.pid, p.name as device, extract_arg(s.arg_set_id, 'debug.kernels') as kernels,"
    " extract_arg(s.arg_set_id, 'debug.copies') as copies, extract_arg(s.arg_set_id, 'debug.span_ns') as span"
    " from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid)"
    " where s.category = 'derived' order by p.name, t.tid, s.ts"
)


def trace_of(folder: Path, kernels: list[tuple[int, int, int]], *, pid: int = 1) -> Path:
    """A Kineto trace of kernels: stream, start and duration in ns."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": "step", "pid": pid, "tid": pid, "ts": 0, "dur": 5, "args": {}}
    ]
    for number, (stream, start, dur) in enumerate(kernels):
        args = {"device": 0, "stream": stream, "correlation": number}
        place = {"pid": 0, "tid": stream, "ts": f"{start}", "dur": f"{dur}"}
        events.append({"ph": "X", "cat": "kernel", "name": f"gemm_{number % 3}", "args": args} | place)
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    for _, start, dur in kernels:  # decimals of us
        for key, value in (("ts", start), ("dur", dur)):
            text = text.replace(f'"{key}": "{value}"', f'"{key}": {value // 1000}.{value % 1000:03}', 1)
    path = folder / "made.json"
    path.write_text(text)
    return path


def union(intervals: list[tuple[int, int]]) -> int:
    busy, reach = 0, -(1 << 62)
    for start, end in sorted(intervals):
        busy += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return busy


def random_kernels(count: int, seed: int) -> list[tuple[int, int, int]]:
    found, ts = [], 0
    generator = np.random.default_rng(seed)
    for _ in range(count):
        ts += int(generator.integers(1, 3_000) if generator.random() < 0.9 else generator.integers(1, 300_000))
        found.append((int(generator.integers(7, 10)), ts, int(generator.integers(1, 5_000))))
    return found


@pytest.mark.parametrize("most", [4000, 40])
def test_busy_time_is_the_union_of_the_kernels_to_the_ns(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where so few pieces are allowed that neighbours are merged."""
    monkeypatch.setattr("ktrace.converters.perfetto.writer.MOST_PIECES", most)
    kernels = random_kernels(1500, 1)
    ktrace.convert(trace_of(tmp_path, kernels), tmp_path / "out.perfetto")
    pieces, exact = engine.query(tmp_path / "out.perfetto", PIECES, "select sum(dur) as n from gpu_slice", derived=True)
    assert exact[0]["n"] == sum(dur for _, _, dur in kernels)
    of: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for stream, start, dur in kernels:
        of[stream].append((start, start + dur))
    assert {row["tid"] for row in pieces} == of.keys()
    for stream, intervals in of.items():
        mine = [row for row in pieces if row["tid"] == stream]
        assert sum(row["dur"] for row in mine) == union(intervals)
        assert sum(row["kernels"] for row in mine) == len(intervals)
        for row, after in pairwise(mine):
            assert row["ts"] + row["span"] < after["ts"]
        for row in mine:
            inside = [(a, b) for a, b in intervals if row["ts"] <= a and b <= row["ts"] + row["span"]]
            assert (row["dur"], row["kernels"]) == (union(inside), len(inside))
            assert row["span"] == max(b for _, b in inside) - row["ts"]
    assert len(pieces) <= most
    if most == 40:
        assert len(pieces) > 10


def test_pieces_do_not_depend_on_batches() -> None:
    """The same pieces from rows one by one and all at once, with merges on the way."""

    def found(size: int) -> list[tuple[Any, ...]]:
        busy = busy_pieces.BusyPieces(120)
        busy.operations = [*"abcd"]
        rows = np.array(random_kernels(900, 2), np.int64)
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            part = part[np.argsort(part[:, 0], kind="stable")]
            track, start, dur = (np.ascontiguousarray(part[:, one]) for one in range(3))
            busy._gather(track, start, start + dur, np.ones(len(track), np.int64), dur % 5)
        pieces = busy.finish()
        columns = (pieces.track, pieces.start, pieces.end, pieces.busy, pieces.kernels)
        return [*zip(*(column.tolist() for column in columns), pieces.work.tolist(), strict=True)]

    whole = found(900)
    assert 10 < len(whole) <= 120
    for size in (1, 2, 7, 100):
        assert found(size) == whole


def drawn(kernels: list[tuple[int, int, int]], most: int) -> list[tuple[int, int, int]]:
    """Start, span and busy time of the pieces of kernels on one stream."""
    busy = busy_pieces.BusyPieces(most)
    for first in range(0, len(kernels), 5000):
        track, start, dur = np.array(kernels[first : first + 5000], np.int64).T.copy()
        busy._gather(track, start, start + dur, np.ones(len(track), np.int64), dur * 0)
    found = busy.finish()
    return [*zip(found.start.tolist(), (found.end - found.start).tolist(), found.busy.tolist(), strict=True)]


@pytest.mark.parametrize("share", [10, 50, 90])
def test_a_device_that_is_busy_for_a_share_of_the_time_looks_so_everywhere(share: int) -> None:
    """All gaps have one length: closing those of a length would make one piece of everything."""
    kernels = [(7, 1000 * number, 10 * share) for number in range(50_000)]
    pieces = drawn(kernels, 4000)
    assert 1000 < len(pieces) <= 4000
    for part in range(100):
        first, end = 500_000 * part, 500_000 * (part + 1)
        seen = sum(max(min(ts + busy, end) - max(ts, first), 0) for ts, _, busy in pieces)
        assert seen == pytest.approx(5000 * share, rel=0.1)


def test_the_pieces_of_a_real_trace_are_near_its_work_everywhere(tmp_path: Path) -> None:
    """Within 1 % of every hundredth of the time, by arithmetic over the tables that Nsight Systems wrote."""
    with closing(sqlite3.connect(f"file:{at_hand(NSYS)}?immutable=1", uri=True)) as database:
        tables = ("KERNEL", "MEMCPY", "MEMSET")
        asked = (f"select deviceId, streamId, start, end from CUPTI_ACTIVITY_KIND_{table}" for table in tables)
        rows = [row for sql in asked for row in database.execute(sql)]
    of: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for device, stream, start, end in rows:
        of[device, stream].append((start, end))
    ktrace.convert(NSYS, tmp_path / "out.perfetto")
    pieces, exact = engine.query(tmp_path / "out.perfetto", PIECES, "select sum(dur) as n from gpu_slice", derived=True)
    assert exact[0]["n"] == sum(end - start for _, _, start, end in rows)
    assert sum(row["dur"] for row in pieces) == sum(map(union, of.values()))
    first, last = min(row[2] for row in rows), max(row[3] for row in rows)
    for part in range(100):
        low, high = (first + (last - first) * one // 100 for one in (part, part + 1))
        busy = sum(union([(max(a, low), min(b, high)) for a, b in one if a < high and b > low]) for one in of.values())
        drawn = sum(max(min(row["ts"] + row["dur"], high) - max(row["ts"], low), 0) for row in pieces)
        assert abs(drawn - busy) <= 0.01 * (high - low) * len(of)


def test_no_piece_with_gaps_is_long_where_others_need_most_of_the_pieces() -> None:
    """Long gaps in the first tenth would take all pieces, and leave one for the rest."""
    first = [(7, 100_000 * number, 10_000) for number in range(6000)]
    rest = [(7, 600_000_000 + 20_000 * number, 10_000) for number in range(270_000)]
    pieces = drawn([*first, *rest], 4000)
    assert len(pieces) <= 4000
    assert max(span for _, span, _ in pieces) < 6_000_000_000 / 500
    assert sum(busy for *_, busy in pieces) == 276_000 * 10_000


def test_up_to_the_most_pieces_are_the_work_itself() -> None:
    kernels = [(7, 5000 * number, 1 + number) for number in range(4000)]
    assert drawn(kernels, 4000) == [(ts, dur, dur) for _, ts, dur in kernels]


def test_each_device_is_a_process_of_its_own_whose_id_nothing_else_has(tmp_path: Path) -> None:
    """The process of the source has id 1, which would be the first free one."""
    ktrace.convert(trace_of(tmp_path, [(7, 1000, 10), (8, 1500, 10)], pid=1), tmp_path / "out.perfetto")
    pieces, processes = engine.query(
        tmp_path / "out.perfetto", PIECES, "select pid, name from process where name is not null", derived=True
    )
    assert [(row["tid"], row["kernels"], row["dur"]) for row in pieces] == [(7, 1, 10), (8, 1, 10)]
    assert {row["name"] for row in pieces} == {"busy"}
    assert len(processes) == len({row["pid"] for row in processes}) == 2


def test_reading_leaves_them_out_and_the_account_adds_up(tmp_path: Path) -> None:
    ktrace.convert(STEP, tmp_path / "one.perfetto")
    report = ktrace.convert(tmp_path / "one.perfetto", tmp_path / "back.parquet")
    assert report.balanced()
    assert report.reader.removed["derived for viewers"] > 0
    first, back = (ktrace.read(path).to_arrow()["events"] for path in (STEP, tmp_path / "one.perfetto"))
    columns = ("kind", "name", "ts", "dur", "device", "stream", "tid")
    assert first.num_rows == back.num_rows
    for name in columns:
        assert sorted(map(str, first[name].to_pylist())) == sorted(map(str, back[name].to_pylist()))


def test_slices_need_no_pieces(tmp_path: Path) -> None:
    """Where device work is slices itself, nothing is drawn twice."""
    ktrace.convert(trace_of(tmp_path, random_kernels(300, 3)), tmp_path / "out.perfetto", gpu="slices")
    everything = "select count(*) as n, count(distinct category) as categories from slice"
    pieces, found = engine.query(tmp_path / "out.perfetto", PIECES, everything, derived=True)
    assert (pieces, found) == ([], [{"n": 301, "categories": 2}])
    assert ktrace.convert(tmp_path / "out.perfetto", tmp_path / "back.parquet").written == 301


def closing_values(path: Path) -> list[tuple[int, int, float]]:
    """GPU, time and value of the derived values of counters."""
    found, counters = [], {}
    for packet in Trace.FromString(path.read_bytes()).packet:
        if packet.trusted_packet_sequence_id >= DERIVED_SEQUENCES:
            for entry in packet.interned_data.gpu_counter_descriptors:
                counters[entry.iid] = entry.gpu_id
            event = packet.gpu_counter_event
            gpu = counters.get(event.counter_descriptor_iid, -1)
            found += [(gpu, packet.timestamp, counter.double_value) for counter in event.counters]
    return sorted(found)


@pytest.mark.parametrize("most", [20_000, 7])
def test_counters_of_kernels_end_where_their_gpu_has_no_kernel(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs whose kernels overlap on streams: no 0 while a kernel of the same GPU runs, one after each piece of them
    that has a value, and nothing for GPUs whose kernels have none.
    """
    monkeypatch.setattr("ktrace.converters.perfetto.writing.kernel_counters.MOST", most)
    monkeypatch.setattr(kernel_counters.KernelCounters.__init__, "__defaults__", (most,))
    rows: list[dict[str, Any]] = []
    chance = np.random.default_rng(5)
    for number, (stream, start, dur) in enumerate(random_kernels(700, 4)):
        device = number % 3
        kernel = {"kind": "kernel", "name": f"gemm_{number % 5}", "ts": start, "dur": dur, "device": device}
        known = {"occupancy": 50.0} if device < 2 and chance.random() < 0.3 else {}
        rows.append(
            {"record": "event", "source": "made", "id": number, "stream": stream, "timing": "measured"} | kernel | known
        )
    lines = [{"ktrace": "1.0"}, *rows]
    (tmp_path / "made.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ktrace.convert(tmp_path / "made.jsonl", tmp_path / "out.perfetto", from_="jsonl")
    longest = sorted((row for row in rows if "occupancy" in row), key=lambda row: -row["dur"])[:most]
    wanted = set()
    for row in longest:
        end, grown = row["ts"] + row["dur"], True
        mine = [(one["ts"], one["ts"] + one["dur"]) for one in rows if one["device"] == row["device"]]
        while grown:
            reach = max(b for a, b in mine if a <= end and b >= end)
            end, grown = reach, reach > end
        wanted.add((row["device"], end, 0.0))
    found = closing_values(tmp_path / "out.perfetto")
    assert found == sorted(wanted)
    assert len(found) > 5
    assert not any(
        row["ts"] <= ts < row["ts"] + row["dur"] for device, ts, _ in found for row in rows if row["device"] == device
    )
    back = ktrace.read(tmp_path / "out.perfetto").events
    assert (back.kind == "counter").sum() == 0
    assert len(back) == 700


def test_a_trace_without_device_work_has_none(tmp_path: Path) -> None:
    ktrace.convert(trace_of(tmp_path, []), tmp_path / "out.perfetto")
    pieces, processes = engine.query(
        tmp_path / "out.perfetto", PIECES, "select name from process where name is not null", derived=True
    )
    assert pieces == []
    assert len(processes) == 1
