"""Perfetto traces of other tools: unread packets are reported, graphics aren't kernels, facts about GPUs are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import SHARED
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, StrictFailure

XPLANES = sorted((SHARED / "corpus" / "xplane").glob("*.pb"))


def saved(made: trace.Trace, path: Path) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def with_ftrace(packets: int) -> trace.Trace:
    made = trace.Trace()
    for number in range(packets):
        events = made.packet.add().ftrace_events
        events.cpu = number
        events.event.add(timestamp=5, pid=3)
    return made


def test_a_trace_of_ftrace_alone_is_recognised_and_refused(tmp_path: Path) -> None:
    made = with_ftrace(3)
    made.packet.add().trace_config.duration_ms = 5
    made.packet.add().sys_stats.collection_end_timestamp = 7
    path = saved(made, tmp_path / "scheduling.bin")
    assert [match.format for match in ktrace.detect(path)] == ["perfetto"]
    with pytest.raises(InputError, match=r"nothing to write.*3 ftrace_events, 1 sys_stats"):
        ktrace.convert(path, tmp_path / "out.parquet")
    done = CliRunner().invoke(cli, ["convert", str(path), "-o", str(tmp_path / "out.perfetto")])
    assert done.exit_code == 1
    assert list(tmp_path.iterdir()) == [path]


def test_packets_that_are_not_read_are_skipped_by_kind(tmp_path: Path) -> None:
    made = with_ftrace(2)
    made.packet.add().trace_stats.buffer_stats.add()
    begin = made.packet.add(timestamp=10, trusted_packet_sequence_id=1)
    begin.track_event.type, begin.track_event.name = trace.TrackEvent.TYPE_INSTANT, "mark"
    path = saved(made, tmp_path / "mixed.pftrace")
    report = ktrace.convert(path, tmp_path / "out.parquet")
    issue = report.issues["unread-packet"]
    assert (issue.rows, issue.places[0][1], issue.severity.name) == (2, "2 ftrace_events", "SKIP")
    assert (report.reader.taken, report.written) == (4, 1)
    assert report.reader.removed["about the recording"] == 1
    with pytest.raises(StrictFailure, match="2 ftrace_events"):
        ktrace.convert(path, tmp_path / "strict.parquet", strict=True)


@pytest.mark.skipif(not XPLANES, reason="no ../shared/corpus/xplane")
@pytest.mark.parametrize("path", XPLANES, ids=lambda path: path.name)
def test_an_xplane_isnt_a_perfetto_trace(path: Path) -> None:
    assert [match.format for match in ktrace.detect(path)] == ["xplane"]


def gpu_trace() -> trace.Trace:
    """Two stages of categories, one without, on queues with descriptions; a counter in two groups."""
    made = trace.Trace()
    first = made.packet.add(timestamp=1, trusted_packet_sequence_id=1, sequence_flags=1)
    interned = first.interned_data
    interned.gpu_specifications.add(iid=1, name="Queue 0", description="The universal queue")
    for iid, name, category in ((2, "Fragment", 1), (3, "matmul", 2), (4, "Tiler", 0)):
        interned.gpu_specifications.add(iid=iid, name=name, category=category)
    described = interned.gpu_counter_descriptors.add(iid=1, gpu_id=0).counter_descriptor
    described.specs.add(counter_id=7, name="Tiles", description="Tiles drawn", groups=[3, 5])
    described.counter_groups.add(group_id=1, name="Tiling", counter_ids=[7])
    for number, stage in enumerate((2, 3, 4), 1):
        packet = made.packet.add(timestamp=10 * number, trusted_packet_sequence_id=1, sequence_flags=2)
        event = packet.gpu_render_stage_event
        event.event_id, event.duration, event.hw_queue_iid, event.stage_iid = number, 5, 1, stage
    values = made.packet.add(timestamp=12, trusted_packet_sequence_id=1, sequence_flags=2).gpu_counter_event
    values.counter_descriptor_iid = 1
    values.counters.add(counter_id=7, int_value=99)
    return made


def test_graphics_are_no_kernels(tmp_path: Path) -> None:
    events = ktrace.read(saved(gpu_trace(), tmp_path / "gpu.pftrace")).events
    kinds = dict(zip(events.name, events.kind, strict=True))
    assert kinds == {"Fragment": "range", "matmul": "kernel", "Tiler": "range", "Tiles": "counter"}


def test_groups_of_counters_and_descriptions_of_queues_are_kept(tmp_path: Path) -> None:
    rows = ktrace.read(saved(gpu_trace(), tmp_path / "gpu.pftrace")).to_arrow()["catalog"].to_pylist()
    facts = {(row["entity"], row["name"] or row["track"]): json.loads(row["facts"] or "{}") for row in rows}
    assert facts["metric", "Tiles"] == {
        "description": "Tiles drawn",
        "groups": ["fragments", "memory", "Tiling"],
    }
    assert facts["track", "Queue 0"] == {"description": "The universal queue"}
