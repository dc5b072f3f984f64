"""Traces of other writers with several machines: what has the same number on two of them is not the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ktrace

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Machines 7 and 9 and the host itself, each with process 10, thread 11 and track 5."""
    whole = pb.Trace()
    for sequence, machine in enumerate((0, 7, 9), 1):
        described = whole.packet.add(trusted_packet_sequence_id=sequence, machine_id=machine)
        described.track_descriptor.uuid = 5
        thread = described.track_descriptor.thread
        thread.pid, thread.tid, thread.thread_name = 10, 11, f"worker of {machine}"
        process = whole.packet.add(trusted_packet_sequence_id=sequence, machine_id=machine).track_descriptor
        process.uuid = 4
        process.process.pid, process.process.process_name = 10, f"app of {machine}"
        for ts, kind in ((100 + machine, 1), (200 + machine, 2)):
            packet = whole.packet.add(trusted_packet_sequence_id=sequence, machine_id=machine, timestamp=ts)
            packet.track_event.type, packet.track_event.track_uuid = kind, 5
            if kind == 1:
                packet.track_event.name = f"work of {machine}"
        gpu = whole.packet.add(machine_id=machine).gpu_info.gpus.add()
        gpu.name = f"GPU of {machine}"
    path = tmp_path / "machines.pftrace"
    path.write_bytes(whole.SerializeToString())
    return path


def test_machines_are_hosts(trace: Path) -> None:
    events = ktrace.read(trace).events.sort_values("ts")
    assert events.name.tolist() == ["work of 0", "work of 7", "work of 9"]
    assert events.host.fillna("").tolist() == ["", "machine 7", "machine 9"]
    assert events.dur.tolist() == [100, 100, 100]
    assert set(zip(events.pid, events.tid, strict=True)) == {(10, 11)}


def test_their_names_are_their_own(trace: Path) -> None:
    frame = ktrace.read(trace).frame()
    assert frame.sort_values("ts").process_name.tolist() == ["app of 0", "app of 7", "app of 9"]
    assert frame.sort_values("ts").thread_name.tolist() == ["worker of 0", "worker of 7", "worker of 9"]
    catalog = ktrace.read(trace).catalog
    devices = catalog[catalog.entity == "device"]
    assert sorted(zip(devices.host.fillna(""), devices.name, strict=True)) == [
        ("", "GPU of 0"),
        ("machine 7", "GPU of 7"),
        ("machine 9", "GPU of 9"),
    ]


def test_they_are_machines_again(trace: Path, tmp_path: Path) -> None:
    ktrace.convert(trace, tmp_path / "out.perfetto")
    packets = pb.Trace.FromString((tmp_path / "out.perfetto").read_bytes()).packet
    machines = {
        packet.machine_id: packet.track_descriptor.process.process_name
        for packet in packets
        if packet.track_descriptor.HasField("process")
    }
    assert sorted(machines.values()) == ["app of 0", "on machine 7: app of 7", "on machine 9: app of 9"]
    both = [ktrace.read(path).events.sort_values("ts").host for path in (trace, tmp_path / "out.perfetto")]
    assert both[0].fillna("").tolist() == both[1].fillna("").tolist()


def test_combinations_of_small_numbers_are_told_apart() -> None:
    """State 8 with number 2 isn't state 11 with number 1, though 8 ^ 2 == 11 ^ 1."""
    from ktrace.kit.columnar.protobuf import combinations

    first, second = (part.ravel() for part in np.meshgrid(np.arange(64), np.arange(64, dtype=np.uint64)))
    rows, of = combinations(first.astype(np.int64), [second.astype(np.uint64), np.zeros(len(second), np.uint64)])
    assert len(rows) == 64 * 64
    assert of.tolist() == list(range(64 * 64))
