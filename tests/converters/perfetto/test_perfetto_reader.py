"""The reader of Perfetto traces: samples row by row, odd and damaged files, and what `info` says."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import SAMPLES, SHARED
from nightly import few
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace
from perfetto_rows import NAMES, arrows, by_name, events, random_trace, write
from perfetto_samples import BEGIN, END, FOLDER, INSTANT
from perfetto_samples import SAMPLES as MADE

import ktrace
from ktrace.conversion import Conversion
from ktrace.converters.perfetto import field_numbers
from ktrace.converters.perfetto.wire import bytes_field, int_field
from ktrace.errors import DamagedInput, KtraceError
from ktrace.input.detection import detect
from ktrace.model.row_builder import RowBuilder
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace


@pytest.mark.parametrize("name", MADE)
def test_the_samples_are_what_the_script_makes(name: str) -> None:
    made = trace.Trace.FromString((FOLDER / name).read_bytes())
    assert made == MADE[name]()


def test_the_names_of_fields_are_those_of_the_descriptors() -> None:
    from ktrace.proto.generate_field_numbers import text

    assert Path(field_numbers.__file__).read_text("utf-8") == text()


# The samples, row by row: the numbers are those of perfetto_samples.py.


def test_clocks_states_and_compressed_packets() -> None:
    (path,) = FOLDER.glob("clocks-*")
    rows = by_name(path)
    load = rows["load"]
    # The clock counts on from 1000: 100 to the start, 50 + 25 + 10 + 10 + 5 + 0 + 10 + 10 + 100 to the end.
    assert (load["ts"], load["dur"], load["pid"], load["tid"], load["cat"]) == (1100, 220, 77, 78, "io,disk")
    assert load["args"] == {
        "size": -4096,
        "text": "a text told once",
        "nested": {"list": [0.5, True], "big": 2**64 - 1},
        "json": {"a": [1, None]},
        "big": 2**64 - 1,
    }
    inner = rows["näher «Ω»"]
    assert (inner["ts"], inner["dur"], inner["args"]) == (1150, 25, {"size": 7})
    assert [(r["ts"], r["value"], r["unit"]) for r in events(path) if r["kind"] == "counter"] == [
        (1185, 6.0, "jobs"),
        (1195, 4.0, "jobs"),
    ]
    assert {name: (rows[name]["ts"], rows[name]["dur"]) for name in ("warm", "hot")} == {
        "warm": (1200, 10),
        "hot": (1210, 10),
    }
    assert rows["another text of the same number"]["ts"] == 1400
    assert arrows(path) == [
        ("flow", "5", "in", "näher «Ω»"),
        ("flow", "5", "out", "load"),
        ("flow", "6", "out", "load"),
        ("flow", "6", "step", "mark"),
    ]
    report = ktrace.read(path).report
    assert report.issues["bad-record"].rows == 1
    assert report.reader.removed["about the recording"] == 1
    facts = {(row["entity"], row["name"]): row["facts"] for row in ktrace.read(path).to_arrow()["catalog"].to_pylist()}
    assert json.loads(facts["clock", "boottime"]) == {
        "kind": "boottime",
        "at_ns": 1000,
        "unix_ns": 1_700_000_000_000_001_000,
    }
    assert ("process", "server") in facts
    assert json.loads(facts["process", "init"]) == {"command": "init -x"}


def test_an_older_tool() -> None:
    (path,) = FOLDER.glob("gpu-stages-*")
    rows = events(path)
    work = {row["name"]: row for row in rows if row["kind"] in ("kernel", "memcpy", "range")}
    assert {name: (row["ts"], row["dur"], row["kind"], row["track"]) for name, row in work.items()} == {
        "Binning": (5100, 300, "range", "Vertex queue"),
        "Blit copy": (5200, 50, "memcpy", "Compute queue"),
        "Compute": (5300, 90, "kernel", "Compute queue"),
    }
    assert work["Compute"]["args"] == {"dispatch": "3 of 3", "$submission_id": 43}
    assert [(r["ts"], r["name"], r["value"], r["unit"]) for r in rows if r["kind"] == "counter"] == [
        (5100, "GPU Frequency", 6e8, "Hz"),
        (5100, "Read", 1.5, "B/s"),
        (5300, "GPU Frequency", 7e8, "Hz"),
        (5300, "Read", float("inf"), "B/s"),
        (5500, "GPU memory", float(1 << 20), "B"),
    ]
    (log,) = (row for row in rows if row["kind"] == "log")
    assert (log["name"], log["args"]) == ("context lost?", {"severity": "warning", "tag": "driver"})
    (device,) = (r for r in ktrace.read(path).to_arrow()["catalog"].to_pylist() if r["entity"] == "device")
    assert (device["device"], device["name"]) == (0, "Example GPU")
    assert json.loads(device["facts"])["uuid"] == bytes(range(16)).hex()


def test_launches() -> None:
    (path,) = FOLDER.glob("launches-*")
    kernels = [row for row in events(path) if row["kind"] == "kernel"]
    assert [(row["ts"], row["dur"], row["name"]) for row in kernels] == [
        (350, 90, "gemm(float*)"),
        (400, 90, "gemm(float*)"),
    ]
    for row in kernels:
        assert (row["pid"], row["device"], row["context"], row["stream"]) == (42, 0, 1, 7)
        assert (row["grid_x"], row["grid_y"], row["block_x"]) == (32, 2, 256)
        assert (row["registers"], row["args"]) == (40, {"arch": "sm_90", "kernel_name": "_Z4gemmPf"})
    assert Counter(end[:3] for end in arrows(path)) == Counter(
        [("launch", key, role) for key in "12" for role in ("out", "in")]
        + [("wait", "1", "in"), ("wait", "1", "in"), ("wait", "1", "out"), ("wait", "2", "in"), ("wait", "2", "out")]
    )


def test_phases_of_chrome() -> None:
    (path,) = FOLDER.glob("phases-*")
    rows = [(row["ts"], row.get("dur"), row["kind"], row.get("track")) for row in events(path)]
    assert rows == [
        (1000, 3000, "range", "0"),
        (1500, None, "instant", "0"),
        (2000, 7000, "range", "cc/0x1f"),
        (5000, None, "instant", "cc/0x1f"),
        (9500, 100, "range", "0"),
    ]
    last = events(path)[-1]
    assert (last["pid"], last["tid"]) == (6, 7)


def test_several_categories_are_joined_interned_ones_first(tmp_path: Path) -> None:
    made = trace.Trace()
    for sequence in (1, 2):  # one number means another text on each
        begun = made.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=1)
        for iid in (1, 2):
            begun.interned_data.event_categories.add(iid=iid, name=f"{sequence}-{iid}")
    wanted = []
    for ts in range(200):
        sequence, iids = 1 + ts % 2, [iid for iid in (2, 1) if ts & iid]
        spelled = ["é", "x"][: ts // 4 % 3]
        packet = made.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=2, timestamp=ts)
        packet.track_event.MergeFrom(trace.TrackEvent(type=INSTANT, category_iids=iids, categories=spelled))
        wanted.append(",".join([*(f"{sequence}-{iid}" for iid in iids), *spelled]))
    (tmp_path / "made.pftrace").write_bytes(made.SerializeToString())
    assert [row.get("cat", "") for row in events(tmp_path / "made.pftrace")] == wanted


def test_stages_that_spell_their_names(tmp_path: Path) -> None:
    made = trace.Trace()
    begun = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    begun.interned_data.gpu_specifications.add(iid=1, name="stage")
    wanted = []
    for ts in range(100):
        packet = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=ts)
        work = packet.gpu_render_stage_event
        work.event_id, work.duration, work.stage_iid = ts + 1, 1, 1
        if ts % 3:
            work.name = NAMES[ts % len(NAMES)]
        wanted.append(NAMES[ts % len(NAMES)] if ts % 3 else "stage")
    (tmp_path / "made.pftrace").write_bytes(made.SerializeToString())
    assert [row["name"] for row in events(tmp_path / "made.pftrace")] == wanted


# Odd files.


def test_a_packet_that_isnt_protobuf_is_skipped(tmp_path: Path) -> None:
    made = random_trace(
        [(5, {"kind": INSTANT, "name": "a", "interned": False, "track": 1, "category": None, "args": {}})]
    )
    path = tmp_path / "broken.pftrace"
    path.write_bytes(bytes_field(1, b"\x0b\xff\xff") + made.SerializeToString())
    read = ktrace.read(path, from_="perfetto")
    assert read.events["name"].tolist() == ["a"]
    assert read.report.issues["bad-record"].places == [("byte 2", "not protobuf")]


def test_no_trace_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text.pftrace"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(DamagedInput, match="isn't a Perfetto trace"):
        ktrace.read(path, from_="perfetto")
    assert not [match for match in detect(path) if match.format == "perfetto"]


@pytest.mark.parametrize("packing", ["compressed_packets", "zstd_compressed_packets"])
def test_packets_in_a_packet(packing: str, tmp_path: Path) -> None:
    plain = MADE["launches-by-interned-kernels.pftrace"]()
    inner = plain.SerializeToString()
    squeezed = zlib.compress(inner) if packing == "compressed_packets" else pa.compress(inner, "zstd", asbytes=True)
    if packing != "compressed_packets":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(inner)
        squeezed = sink.getvalue().to_pybytes()
    outer = trace.Trace()
    outer.packet.add(**{packing: squeezed})
    names = [
        [(row["ts"], row["name"], row.get("dur")) for row in events(write(tmp_path / f"{number}.pftrace", made))]
        for number, made in enumerate((plain, outer))
    ]
    assert names[0] == names[1]


def test_a_clock_that_nothing_ties_to_the_others(tmp_path: Path) -> None:
    made = trace.Trace()
    packet = made.packet.add(trusted_packet_sequence_id=4, timestamp=77, timestamp_clock_id=3)
    packet.track_event.CopyFrom(trace.TrackEvent(type=INSTANT, name="lonely"))
    made.packet.add(trusted_packet_sequence_id=4, timestamp=78).track_event.CopyFrom(
        trace.TrackEvent(type=INSTANT, name="main")
    )
    rows = by_name(write(tmp_path / "clocks.pftrace", made))
    assert (rows["lonely"]["ts"], rows["lonely"]["clock"]) == (77, "monotonic")
    assert "clock" not in rows["main"]


def _halves(path: Path, halves: list[tuple[int, int, int]]) -> list[tuple[str, int, int]]:
    """The slices of a trace of these halves: type, time, track."""
    made = trace.Trace()
    for number, (kind, ts, track) in enumerate(halves):
        packet = made.packet.add(trusted_packet_sequence_id=1, timestamp=ts)
        name = f"{number}" if kind == BEGIN else None
        packet.track_event.CopyFrom(trace.TrackEvent(type=kind, track_uuid=track, name=name))
    return sorted((row["name"], row["ts"], row["dur"]) for row in events(write(path, made)))


def test_begins_and_ends_listed_apart_belong_together_by_their_order(tmp_path: Path) -> None:
    """PyTorch's: slices that touch, that cross, and one without a duration; two groups of two tracks."""
    group = [(100, 200, 5), (110, 300, 6), (200, 250, 5), (240, 400, 5), (400, 400, 5)]
    halves: list[tuple[int, int, int]] = []
    for shift in (0, 1_000):
        halves += [(BEGIN, begin + shift, track) for begin, _, track in group]
        halves += [(END, end + shift, track) for _, end, track in group]
    found = _halves(tmp_path / "apart.pftrace", halves)
    expected = [(number, begin, end - begin) for number, (begin, end, _) in enumerate(group)]
    expected += [(number + 2 * len(group), begin + 1_000, dur) for number, begin, dur in expected]
    assert found == sorted((str(number), begin, dur) for number, begin, dur in expected)


def test_what_is_written_as_time_goes_nests(tmp_path: Path) -> None:
    """The last begin's end comes first."""
    halves = [(BEGIN, 100, 5), (BEGIN, 110, 5), (END, 150, 5), (END, 200, 5), (BEGIN, 300, 5), (END, 310, 5)]
    assert _halves(tmp_path / "nested.pftrace", halves) == [("0", 100, 100), ("1", 110, 40), ("4", 300, 10)]


def test_ends_before_their_begins_in_the_file(tmp_path: Path) -> None:
    """Two sequences write to one track: the file's order isn't that of time."""
    made = trace.Trace()
    for sequence, kind, stamps in ((1, END, (200, 400)), (2, BEGIN, (100, 300))):
        for ts in stamps:
            packet = made.packet.add(trusted_packet_sequence_id=sequence, timestamp=ts)
            packet.track_event.CopyFrom(trace.TrackEvent(type=kind, track_uuid=5, name=f"at {ts}"))
    rows = events(write(tmp_path / "order.pftrace", made))
    assert [(row["name"], row["ts"], row["dur"]) for row in rows] == [("at 100", 100, 100), ("at 300", 300, 100)]


# What `info` says.


def test_info_lists_the_tables_that_will_show() -> None:
    lines = {path.name.split("-")[0]: inspect(path).about["in ui.perfetto.dev"] for path in FOLDER.glob("*")}
    assert lines["phases"] == ["GPU Compute tab: hidden: no render stages"]
    assert lines["gpu"] == ["GPU Compute tab: hidden: 3 render stages, none of the category COMPUTE"]
    assert lines["launches"][0] == "GPU Compute tab: shows 2 kernels"
    assert "Launch Statistics: hidden: no argument workgroup_size" in lines["launches"]
    assert "Occupancy: hidden: no argument sm__maximum_warps_per_active_cycle_pct" in lines["launches"]


def test_info_of_the_example_that_works() -> None:
    path = SHARED / "gpu_tabs" / "example.pftrace"
    if not path.exists():
        pytest.skip("the example is not at hand (../shared/gpu_tabs)")
    assert inspect(path).about["in ui.perfetto.dev"] == [
        "GPU Compute tab: shows 3 kernels",
        "Summary: shows",
        "Launch Statistics: shows",
        "Occupancy: shows",
        "Speed of Light: shows",
        "streams below their device: shows",
    ]


def test_large_packets_go_over_the_border_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto.reading import messages

    dice = random.Random(5)
    packets = [
        int_field(8, number) + bytes_field(900, dice.randbytes(dice.choice([0, 5, 130, 40_000])))
        for number in range(300)
    ]
    data = b"".join(bytes_field(1, packet) for packet in packets)
    for size in (1 << 23, 4096, 701):
        monkeypatch.setattr(messages, "_BLOCK", size)
        report = Report()
        found = [
            data[start:end]
            for starts, ends in messages.packets(data, report)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        assert found == packets
        assert report.reader.taken == len(packets)


def test_metrics_of_kernels_come_back_to_their_kernels(tmp_path: Path) -> None:
    made = RowBuilder(Conversion(Report(), "run"))
    metric = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    for device in (0, 1):
        for ts in (1000, 2000):
            place = {"pid": 7, "device": device, "stream": 3}
            kernel = made.event("kernel", "gemm", ts=ts, dur=100 + device, **place)
            for name, value in ((metric, 10.5 + kernel), ("gpu__time_duration.sum", 100.0)):
                made.event("counter", name, ts=ts, dur=100 + device, parent=kernel, value=value, unit="%", **place)
    source = tmp_path / "run.jsonl"
    Trace(made.rest()).write(source)
    convert(source, tmp_path / "run.perfetto")
    columns = ("name", "parent", "ts", "dur", "pid", "device", "stream", "value", "unit")
    before, after = (
        sorted([row.get(name) for name in columns] for row in events(path) if row["kind"] == "counter")
        for path in (source, tmp_path / "run.perfetto")
    )
    assert len(before) == 8
    assert before == after


@pytest.mark.parametrize("cases", few([100, 1_000], 1))
def test_damaged_bytes_are_reported_or_a_clear_error(cases: int, tmp_path: Path) -> None:
    """Bytes changed, lost and added anywhere: no other error than our own, and accounts that add up."""
    dice = random.Random(8)
    scene_path = tmp_path / "own.perfetto"
    convert(SAMPLES / "kineto" / "amd-clock-skew-overlap-bare-inf.json", scene_path)
    traces = [path.read_bytes() for path in (*sorted(FOLDER.glob("*")), scene_path)]
    path = tmp_path / "damaged.pftrace"
    outcomes = Counter[str]()
    for _ in range(cases):
        data = bytearray(dice.choice(traces))
        for _ in range(dice.choice([1, 2, 20])):
            at = dice.randrange(len(data))
            lost, added = dice.choice([(1, 1), (1, 1), (1, 1), (3, 0), (0, 2)])
            data[at : at + lost] = dice.randbytes(added)
        path.write_bytes(data)
        try:
            report = ktrace.read(path, from_="perfetto").report
        except KtraceError:
            outcomes["error"] += 1
        else:
            assert report.balanced()
            outcomes["issues" if report.issues else "fine"] += 1
    assert min(outcomes["issues"], outcomes["fine"]) > cases // 40  # both ways are taken


def test_of_a_packet_with_its_data_twice_the_last_counts(tmp_path: Path) -> None:
    """The kinds of data of a packet are alternatives: protobuf keeps the last one of them."""
    first, last = (trace.TrackEvent(type=3, name=name, track_uuid=1).SerializeToString() for name in ("first", "last"))
    described = trace.TracePacket(track_descriptor=trace.TrackDescriptor(uuid=1, name="track"), timestamp=1)
    counters = trace.GpuCounterEvent(counters=[trace.GpuCounterEvent.GpuCounter(counter_id=1, int_value=5)])
    twice = int_field(8, 5) + bytes_field(11, first) + bytes_field(11, last)
    mixed = int_field(8, 6) + bytes_field(52, counters.SerializeToString()) + bytes_field(11, last)
    once = int_field(8, 7) + bytes_field(11, last)
    path = tmp_path / "run.pftrace"
    path.write_bytes(b"".join(bytes_field(1, part) for part in (described.SerializeToString(), twice, mixed, once)))
    report = Report()
    found = Trace(read_batches([str(path)], report), report).to_arrow()["events"].to_pylist()
    assert [(row["ts"], row["name"]) for row in found] == [(5, "last"), (6, "last"), (7, "last")]
    assert report.balanced()
    assert report.issues["duplicate-key"].rows == 2
    assert report.issues["duplicate-key"].places[0][0].startswith("byte ")
