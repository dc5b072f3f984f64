"""Makes the samples in samples/perfetto/: traces as other tools write them, by the classes of the package `perfetto`.

    python tests/converters/perfetto_samples.py          (needs the package `perfetto`)

A test compares the files with what this makes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

from ktrace.converters.perfetto.wire import bytes_field, int_field, text_field

FOLDER = Path(__file__).parent.parent.parent / "samples" / "perfetto"

BEGIN, END, INSTANT, COUNTER, STATE = 1, 2, 3, 4, 5
CLEARED, NEEDED = 1, 2


class Sequence:
    """Adds packets of one sequence to a trace."""

    def __init__(self, made: Any, number: int) -> None:
        self.made = made
        self.number = number
        self.fresh = True

    def packet(self, ts: int | None = None, **fields: Any) -> Any:
        """A packet; the first one clears the state, the later ones need it."""
        flags = CLEARED if self.fresh else NEEDED
        self.fresh = False
        packet = self.made.packet.add(trusted_packet_sequence_id=self.number, sequence_flags=flags, **fields)
        if ts is not None:
            packet.timestamp = ts
        return packet

    def event(self, ts: int, kind: int, **fields: Any) -> Any:
        """A packet with a TrackEvent, which is returned."""
        packet = self.packet(ts)
        packet.track_event.CopyFrom(trace.TrackEvent(type=kind, **fields))
        return packet.track_event


def extended(message: Any, data: bytes) -> None:
    """Adds fields that the package doesn't know."""
    message.MergeFromString(data)


def older_gpu() -> Any:
    """Render stages by specifications in their first packet, counters by descriptors beside them, log and memory."""
    made = trace.Trace()
    driver = Sequence(made, 3)
    first = driver.packet(5000).gpu_render_stage_event
    for name in ("Vertex queue", "Compute queue"):
        first.specifications.hw_queue.add(name=name)
    for name in ("Binning", "Blit copy", "Compute"):
        first.specifications.stage.add(name=name)
    for event, (ts, duration, queue, stage) in enumerate(((5100, 300, 0, 0), (5200, 50, 1, 1), (5300, 90, 1, 2)), 1):
        work = driver.packet(ts).gpu_render_stage_event
        work.event_id, work.duration, work.hw_queue_id, work.stage_id, work.context = event, duration, queue, stage, 9
        work.submission_id = 40 + event
        work.extra_data.add(name="dispatch", value=f"{event} of 3")
    counters = driver.packet(5000).gpu_counter_event
    counters.counter_descriptor.specs.add(
        counter_id=1, name="GPU Frequency", description="of the core", numerator_units=[13]
    )
    counters.counter_descriptor.specs.add(counter_id=2, name="Read", numerator_units=[7], denominator_units=[22])
    for ts, clock, read in ((5100, 600_000_000, 1.5), (5300, 700_000_000, float("inf"))):
        values = driver.packet(ts).gpu_counter_event
        values.counters.add(counter_id=1, int_value=clock)
        values.counters.add(counter_id=2, double_value=read)
    log = driver.packet(5400).gpu_log
    log.severity, log.tag, log.log_message = 4, "driver", "context lost?"
    memory = driver.packet(5500).gpu_mem_total_event
    memory.gpu_id, memory.pid, memory.size = 0, 77, 1 << 20
    info = driver.packet().gpu_info.gpus.add(name="Example GPU", vendor="Example")
    info.uuid = bytes(range(16))
    return made


def clocks_and_states() -> Any:
    """A clock that counts on, defaults, compressed packets, a state that begins anew, one that never began."""
    made = trace.Trace()
    made.packet.add(trace_config=trace.TraceConfig(duration_ms=10))
    worker = Sequence(made, 1)
    start = worker.packet(1000)
    start.trace_packet_defaults.timestamp_clock_id = 64
    start.trace_packet_defaults.track_event_defaults.track_uuid = 11
    start.timestamp_clock_id = 6
    for clock, ns, on in ((6, 1000, False), (1, 1_700_000_000_000_001_000, False), (64, 0, True)):
        start.clock_snapshot.clocks.add(clock_id=clock, timestamp=ns, is_incremental=on, unit_multiplier_ns=1)
    names = worker.packet()
    names.interned_data.event_names.add(iid=1, name="load")
    names.interned_data.event_names.add(iid=2, name="näher «Ω»")
    names.interned_data.event_categories.add(iid=1, name="io")
    names.interned_data.event_categories.add(iid=2, name="disk")
    names.interned_data.debug_annotation_names.add(iid=1, name="size")
    names.interned_data.debug_annotation_string_values.add(iid=5, str=b"a text told once")
    process = worker.packet().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 10, 77, "server"
    thread = worker.packet().track_descriptor
    thread.uuid, thread.parent_uuid = 11, 10
    thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 77, 78, "worker"
    counter = worker.packet().track_descriptor
    counter.uuid, counter.parent_uuid, counter.name = 12, 10, "queue"
    counter.counter.unit_name, counter.counter.unit_multiplier, counter.counter.is_incremental = "jobs", 2, True
    phase = worker.packet().track_descriptor
    phase.uuid, phase.parent_uuid, phase.name = 13, 10, "phase"
    _events_and_states(made, worker)
    return made


def _events_and_states(made: Any, worker: Sequence) -> None:
    load = worker.event(100, BEGIN, name_iid=1, category_iids=[1, 2], flow_ids=[5, 6])
    load.debug_annotations.add(name_iid=1, int_value=-4096)
    load.debug_annotations.add(name="text", string_value_iid=5)
    nested = load.debug_annotations.add(name="nested")
    nested.dict_entries.add(name="list").array_values.extend(
        [trace.DebugAnnotation(double_value=0.5), trace.DebugAnnotation(bool_value=True)]
    )
    nested.dict_entries.add(name="big", uint_value=(1 << 64) - 1)
    load.debug_annotations.add(name="json", legacy_json_value='{"a": [1, null]}')
    load.debug_annotations.add(name="big", uint_value=(1 << 64) - 1)
    inner = trace.Trace()
    squeezed = Sequence(inner, 1)
    squeezed.fresh = False
    squeezed.event(50, BEGIN, name_iid=2, category_iids=[2], terminating_flow_ids=[5])
    squeezed.event(25, END).debug_annotations.add(name_iid=1, int_value=7)
    made.packet.add(compressed_packets=zlib.compress(inner.SerializeToString()))
    for step, value in ((10, 3), (10, -1)):
        worker.event(step, COUNTER, track_uuid=12, counter_value=value)
    worker.event(5, INSTANT, name="mark", flow_ids=[6])
    worker.event(0, STATE, track_uuid=13, name="warm")
    worker.event(10, STATE, track_uuid=13, name="hot")
    worker.event(10, STATE, track_uuid=13)
    worker.event(100, END)
    lost = made.packet.add(trusted_packet_sequence_id=9, sequence_flags=NEEDED, timestamp=1500)
    lost.track_event.CopyFrom(trace.TrackEvent(type=INSTANT, name_iid=1))
    worker.fresh = True
    again = worker.packet(1400)
    again.timestamp_clock_id = 6
    again.interned_data.event_names.add(iid=1, name="another text of the same number")
    again.track_event.CopyFrom(trace.TrackEvent(type=INSTANT, name_iid=1, track_uuid=11))
    made.packet.add(
        process_tree=trace.ProcessTree(processes=[trace.ProcessTree.Process(pid=80, cmdline=["init", "-x"])])
    )


def launches() -> Any:
    """Interned kernels with launches, started by host slices and awaited by others (extensions of v55)."""
    made = trace.Trace()
    gpu, host = Sequence(made, 1), Sequence(made, 2)
    data = gpu.packet().interned_data
    data.graphics_contexts.add(iid=1, pid=42, api=4)
    data.gpu_specifications.add(iid=1, name="Stream #7", category=2)
    data.gpu_specifications.add(iid=2, name="Kernel", category=2)
    arguments = bytes_field(5, int_field(1, 1) + int_field(4, 40))
    kernel = (
        int_field(1, 1)
        + text_field(2, "_Z4gemmPf")
        + text_field(3, "gemm(float*)")
        + text_field(4, "sm_90")
        + arguments
    )
    extended(
        data, bytes_field(1000, kernel) + bytes_field(1001, int_field(1, 1) + text_field(2, "registers_per_thread"))
    )
    thread = host.packet().track_descriptor
    thread.uuid, thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 1, 42, 43, "main"
    thread.process.pid, thread.process.process_name = 42, "python3"
    for event, ts in ((1, 100), (2, 200)):
        call = host.event(ts, BEGIN, track_uuid=1, name="launch", categories=["cuda"])
        extended(call, bytes_field(3000, bytes_field(1, bytes((event,)))))
        host.event(ts + 20, END, track_uuid=1)
    for event, ts in ((1, 400), (2, 350)):
        work = gpu.packet(ts).gpu_render_stage_event
        work.event_id, work.duration, work.hw_queue_iid, work.stage_iid, work.context = event, 90, 1, 2, 1
        sizes = bytes_field(1, int_field(1, 32) + int_field(2, 2)) + bytes_field(2, int_field(1, 256))
        extended(
            work, int_field(19, 1) + bytes_field(21, sizes + bytes_field(3, text_field(2, "stream") + int_field(3, 7)))
        )
        if event == 2:
            work.event_wait_ids.append(1)
    waiting = host.event(300, BEGIN, track_uuid=1, name="synchronise")
    extended(waiting, bytes_field(3000, bytes_field(2, bytes((1, 2)))))
    host.event(600, END, track_uuid=1)
    return made


def annotated(event: Any, **arguments: int | str) -> None:
    """Adds debug annotations; `_` in a name is a blank."""
    for name, value in arguments.items():
        key = "string_value" if isinstance(value, str) else "int_value"
        event.debug_annotations.add(name=name.replace("_", " ") if name[0].isupper() else name, **{key: value})


def stages_of_torch() -> Any:
    """The layout of PyTorch's monitor of CUPTI: stages by kind, their arguments as texts, launches by event ids."""
    made = trace.Trace()
    for uuid, parent, pid, tid, name in (
        (1, 0, 42, None, "python3"),
        (2, 1, 42, 43, "thread 43"),
        (3, 0, 0, None, "GPU 0"),
        (4, 3, 0, 7, "stream 7"),
    ):
        track = made.packet.add().track_descriptor
        track.uuid = uuid
        if tid is None:
            track.process.pid, track.process.process_name = pid, name
        else:
            track.parent_uuid = parent
            track.thread.pid, track.thread.tid, track.thread.thread_name = pid, tid, name
    main = Sequence(made, 1)
    data = main.packet().interned_data
    stages = ("Kernel", 2), ("Memcpy", 0), ("Annotation", 0), ("EventRecord", 0), ("HostNode", 0)
    for iid, (name, category) in enumerate(stages, 1):
        data.gpu_specifications.add(iid=iid, name=name, category=category)
    data.gpu_specifications.add(iid=10, name="[007] stream 7", category=0)
    data.gpu_specifications.add(iid=11, name="[100] all-gather", category=0)
    data.graphics_contexts.add(iid=1, pid=42)
    data.event_names.add(iid=1, name="step 1")
    extended(
        data,
        bytes_field(1000, int_field(1, 1) + text_field(3, "gemm(float*)"))
        + bytes_field(1001, int_field(1, 1) + text_field(2, "registers_per_thread"))
        + bytes_field(1001, int_field(1, 2) + text_field(2, "shared_mem_dynamic")),
    )
    op = main.event(90, BEGIN, track_uuid=2, name="aten::mm", categories=["cpu_op"])
    annotated(op, External_id=5)
    for ts, events, correlation in ((100, b"\x01", 11), (200, b"\x02\x03", 12)):
        call = main.event(ts, BEGIN, track_uuid=2, name="cudaGraphLaunch", categories=["cuda_runtime"])
        annotated(call, cbid=311, correlation=correlation)
        extended(call, bytes_field(3000, bytes_field(1, events)))
        main.event(ts + 20, END, track_uuid=2)
    main.event(230, END, track_uuid=2)
    sync = main.event(250, BEGIN, track_uuid=4, name="Stream Sync")
    annotated(sync, stream=7, correlation=13, device=0, context=1, cuda_sync_kind="Stream Sync")
    main.event(900, END, track_uuid=4)
    for event, ts, dur, stage, queue, stream in (
        (4, 290, 600, 3, 10, None),
        (1, 300, 50, 2, 10, None),
        (2, 400, 90, 1, 10, 7),
        (3, 500, 80, 1, 11, 7),
        (5, 590, 0, 4, 10, 7),
        (6, 600, 9, 5, 10, 7),
    ):
        work = main.packet(ts).gpu_render_stage_event
        work.event_id, work.duration, work.gpu_id, work.hw_queue_iid, work.stage_iid = event, dur, 0, queue, stage
        work.context = 1
        if stage == 1:
            launch = bytes_field(1, int_field(1, 32)) + bytes_field(2, int_field(1, 256))
            for iid, value in ((1, 40), (2, 1024)):
                launch += bytes_field(3, int_field(1, iid) + int_field(4, value))
            extended(work, int_field(19, 1) + bytes_field(21, launch))
        elif stage == 3:
            work.name_iid = 1
        extra = {"device id": 0, "context id": 3, "stream id": stream, "correlation": {1: 11, 2: 12, 3: 12}.get(event)}
        for name, value in (extra | {"bytes": 4096 if stage == 2 else None}).items():
            if value is not None:
                work.extra_data.add(name=name, value=str(value))
        if event == 3:
            work.event_wait_ids.append(2)
    return made


def dispatches() -> Any:
    """rocprofv3's slices (generatePerfetto.cpp of ROCm 7): calls on threads, work on tracks of agents."""
    made = trace.Trace()
    main = Sequence(made, 1)
    for uuid, name in (
        (2, "THREAD 1 (43)"),
        (3, "COMPUTE AGENT [4] STREAM [1] (GPU)"),
        (4, "COPY to AGENT [4] STREAM [1] (GPU)"),
        (5, "COPY to AGENT [0] STREAM [1] (CPU)"),
    ):
        track = main.packet().track_descriptor
        track.uuid, track.parent_uuid, track.name = uuid, 1, name
    process = main.packet().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 1, 42, "app"

    def slice_(uuid: int, ts: int, dur: int, category: str, name: str, number: int, **arguments: int | str) -> None:
        event = main.event(ts, BEGIN, track_uuid=uuid, name=name, categories=[category], flow_ids=[0xABC0 ^ number])
        annotated(event, begin_ns=ts, end_ns=ts + dur, delta_ns=dur, **arguments, corr_id=number)
        main.event(ts + dur, END, track_uuid=uuid)

    slice_(2, 90, 700, "marker_api", "step", 9, tid=43)
    slice_(2, 100, 20, "hip_api", "hipMemcpyAsync", 1, tid=43)
    slice_(2, 200, 20, "hip_api", "hipLaunchKernel", 2, tid=43)
    slice_(2, 230, 20, "hip_api", "hipMemcpyAsync", 3, tid=43)
    agents = {"src_agent": "Agent-0", "dst_agent": "Agent-4"}
    slice_(4, 150, 30, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 1, **agents, copy_bytes=4096)
    sizes = {"workgroup_size": 256, "grid_size": 1024, "group_segment_size": 512}
    slice_(3, 300, 90, "kernel_dispatch", "add(float*)", 2, agent="Agent-4", queue=77, kernel_id=5, **sizes)
    back = {"src_agent": "Agent-4", "dst_agent": "Agent-0"}
    slice_(5, 400, 50, "memory_copy", "MEMORY_COPY_DEVICE_TO_HOST", 3, **back, copy_bytes=4096)
    return made


def chrome_phases() -> Any:
    """A trace of an older Chrome: phases instead of types."""
    made = trace.Trace()
    browser = Sequence(made, 1)
    names = browser.packet().interned_data
    names.event_names.add(iid=1, name="paint")
    names.event_categories.add(iid=1, name="cc")
    for ts, phase, more in (
        (1000, "X", {"duration_us": 3}),
        (1500, "I", {"instant_event_scope": 2}),
        (2000, "b", {"global_id": 31}),
        (5000, "n", {"global_id": 31}),
        (9000, "e", {"global_id": 31}),
        (9500, "B", {"tid_override": 7, "pid_override": 6}),
        (9600, "E", {"tid_override": 7, "pid_override": 6}),
        (9700, "M", {}),
    ):
        event = browser.packet(ts).track_event
        event.category_iids.append(1)
        event.legacy_event.CopyFrom(trace.TrackEvent.LegacyEvent(name_iid=1, phase=ord(phase), **more))
    return made


SAMPLES: dict[str, Callable[[], Any]] = {
    "gpu-stages-of-an-older-tool.pftrace": older_gpu,
    "clocks-that-count-on-compressed-packets-and-a-lost-state.pftrace": clocks_and_states,
    "launches-by-interned-kernels.pftrace": launches,
    "phases-of-an-older-chrome.pftrace": chrome_phases,
    "stages-of-torch-with-annotations-and-texts-as-arguments.pftrace": stages_of_torch,
    "dispatches-and-copies-as-slices-of-rocprofv3.pftrace": dispatches,
}

if __name__ == "__main__":
    for sample, make in SAMPLES.items():
        (FOLDER / sample).write_bytes(make().SerializeToString())
