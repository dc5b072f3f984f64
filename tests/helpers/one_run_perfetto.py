"""Writes a run of PyTorch's profiler as the Perfetto traces of other tools, by the layouts of their sources.

torch_stages    GPU work as render stages        pytorch, torch/profiler/_cuspy/trace.py, torch/csrc/profiler/cuspy/
torch_slices    its first form, all as slices    pytorch 39304f15, torch/csrc/profiler/cupti/monitor_pftrace.cpp
rocprofv3       slices on queues or streams      rocm-systems, rocprofiler-sdk/source/lib/output/generatePerfetto.cpp
rocprof_sys     slices on queues or streams      rocm-systems, rocprofiler-systems, trace_cache/perfetto_processor.cpp
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from one_run import CALLS, COLLECTIVE, GPU_RANGE, OPS, SYNC, WORK, Event, Run, graph_edges, only

from ktrace.converters.perfetto.wire import bytes_field, double, double_tag, int_field, text_field

BEGIN, END = 1, 2
_CLEARED, _NEEDED = 1, 2

#: Calls that PyTorch links with their work (trace.py, _runtime_is_launch and _driver_requires_flow).
_LAUNCH = re.compile(r"cudaLaunch(Cooperative)?Kernel|cuda(Memcpy|Memset)|cudaGraphLaunch$|cuLaunchKernel(Ex)?$")
#: Calls of the driver that PyTorch keeps; of the runtime it drops a few.
_DRIVER = re.compile(r"cuLaunchKernel(Ex)?$|cuMem(Create|Map|Unmap|Release|(Ex|Im)port\w+ShareableHandle)$")
_DROPPED = re.compile(r"cuda([GS]etDevice|GetLastError|EventCreate(WithFlags)?|EventDestroy)$")

_STAGES = {"kernel": (1, "Kernel", 2), "gpu_memcpy": (2, "Memcpy", 0), "gpu_memset": (3, "Memset", 0)}
_STAGES |= {GPU_RANGE: (4, "Annotation", 0)}
_STAGES |= {"graph_event_node": (5, "EventRecord", 0), "graph_host_node": (6, "HostNode", 0)}
_SYNC_ARGS = ("cuda_sync_kind", "stream", "correlation", "device", "context")
_WAIT_ARGS = ("wait_on_stream", "wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id")


class Trace:
    """Packets of one sequence; names and categories are interned."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.tracks: dict[Any, int] = {}
        self.descriptors: list[bytes] = []
        self.packets: list[bytes] = []

    def name(self, text: str) -> int:
        """The number of an interned name."""
        return self.names.setdefault(text, len(self.names) + 1)

    def thread(self, pid: int, tid: int, process: str, title: str) -> int:
        """The uuid of a thread's track, below its process."""
        if ("process", pid) not in self.tracks:
            uuid = self.tracks["process", pid] = len(self.tracks) + 1
            about = int_field(1, pid & 0x7FFFFFFF) + text_field(6, process)
            self.descriptors.append(int_field(1, uuid) + bytes_field(3, about))
        if (pid, tid) not in self.tracks:
            uuid = self.tracks[pid, tid] = len(self.tracks) + 1
            about = int_field(1, pid & 0x7FFFFFFF) + int_field(2, tid & 0x7FFFFFFF) + text_field(5, title)
            parent = int_field(5, self.tracks["process", pid])
            self.descriptors.append(int_field(1, uuid) + parent + bytes_field(4, about))
        return self.tracks[pid, tid]

    def named(self, title: str, parent: int = 0) -> int:
        """The uuid of a track that has only a name."""
        if title not in self.tracks:
            uuid = self.tracks[title] = len(self.tracks) + 1
            self.descriptors.append(
                int_field(1, uuid) + (int_field(5, parent) if parent else b"") + text_field(2, title)
            )
        return self.tracks[title]

    def packet(self, ts: int, field_number: int, body: bytes, flags: int = _NEEDED) -> None:
        """Adds a packet with one message."""
        head = int_field(8, ts) + int_field(10, 1) + (int_field(13, flags) if flags else b"")
        self.packets.append(head + bytes_field(field_number, body))

    def slices(self, group: Iterable[tuple[int, int, int, str, str, bytes]]) -> None:
        """Adds slices (track, begin, end, name, category, more fields): all begins, then all ends, as PyTorch does."""
        group = list(group)
        for track, begin, _, name, category, more in group:
            kind = int_field(3, self.categories.setdefault(category, len(self.categories) + 1)) if category else b""
            head = int_field(9, BEGIN) + int_field(11, track) + int_field(10, self.name(name))
            self.packet(begin, 11, head + kind + more)
        for track, _, end, *_ in group:
            self.packet(end, 11, int_field(9, END) + int_field(11, track), flags=0)

    def written(self, interned: bytes = b"", first: bytes = b"") -> bytes:
        """The file: descriptors, interned data, packets."""
        for number, table in ((1, self.categories), (2, self.names)):
            interned += b"".join(
                bytes_field(number, int_field(1, iid) + text_field(2, text)) for text, iid in table.items()
            )
        state = int_field(10, 1) + int_field(13, _CLEARED) + bytes_field(12, interned)
        described = [bytes_field(60, one) for one in self.descriptors]
        return b"".join(bytes_field(1, one) for one in (*([first] if first else ()), *described, state, *self.packets))


def annotation(value: Any) -> bytes:
    """The value of a debug annotation, as PyTorch spreads JSON."""
    if isinstance(value, bool):
        return int_field(2, int(value))
    if isinstance(value, int):
        return int_field(4, value)
    if isinstance(value, (float, Decimal)):
        return double_tag(5) + double(float(value))
    if isinstance(value, list):
        return b"".join(bytes_field(12, annotation(one)) for one in value)
    if isinstance(value, Mapping):
        parts = (text_field(10, key) + annotation(one) for key, one in value.items())
        return b"".join(bytes_field(11, part) for part in parts)
    return text_field(6, "null" if value is None else str(value))


def annotations(args: Mapping[str, Any]) -> bytes:
    """Debug annotations."""
    return b"".join(bytes_field(4, text_field(10, key) + annotation(value)) for key, value in args.items())


def _fixed64(number: int, value: int) -> bytes:
    return double_tag(number) + value.to_bytes(8, "little")


# PyTorch


def in_torch_stages(one: Event) -> Event | None:
    """What the form with render stages holds.

    A copy has no name but its stage's, so no direction. A call keeps cbid and correlation, work has no `External id`.
    """
    if one.cat in CALLS:
        kept = _DRIVER.match(one.name) if one.cat == "cuda_driver" else not _DROPPED.match(one.name)
        return only(one, ("cbid", "correlation")) if kept else None
    if one.cat == "kernel":
        keys = ("device", "context", "stream", "correlation", "grid", "block", "registers per thread", "shared memory")
        return only(one, (*keys, "priority", "queued", "graph id", "graph node id", *COLLECTIVE))
    if one.cat in ("gpu_memcpy", "gpu_memset"):
        keys = ("device", "context", "stream", "correlation", "bytes", "graph id", "graph node id")
        return only(one, keys, name=_STAGES[one.cat][1])
    if one.cat == SYNC:
        return only(one, (*_SYNC_ARGS, *_WAIT_ARGS))
    if one.cat == GPU_RANGE:
        return only(one, ())
    if one.cat in OPS:
        return one
    return None


def torch_stages(run: Run, path: Path) -> Path:
    """The form with render stages: calls name the stages that they started, of a graph its root, lanes are streams."""
    trace = Trace()
    stages = [one for cat in _STAGES for one in run.of(cat)]
    numbers = {id(one): number for number, one in enumerate(stages, 1)}
    awaited = {id(after): numbers[id(before)] for before, after in graph_edges(run)}
    started: dict[int, list[int]] = defaultdict(list)
    for one in stages:
        if id(one) not in awaited:
            started[one.correlation].append(numbers[id(one)])
    host = [
        (trace.thread(one.pid, one.tid, "python", f"thread {one.tid}"), one, annotations(one.args))
        for one in run.of(*OPS)
    ]
    trace.slices(
        (track, run.base + one.begin, run.base + one.end, one.name, one.cat, more) for track, one, more in host
    )
    for cat in CALLS:
        rows = []
        for one in run.of(cat):
            ids = started.get(one.correlation, []) if one.correlation and _LAUNCH.match(one.name) else []
            link = bytes_field(3000, b"".join(int_field(1, number) for number in ids)) if ids else b""
            track = trace.thread(one.pid, one.tid, f"process {one.pid}", f"thread {one.tid}")
            rows.append((track, run.base + one.begin, run.base + one.end, one.name, cat, link + annotations(one.args)))
        trace.slices(rows)
    trace.slices(
        (
            trace.thread(one.pid, one.tid, f"GPU {one.pid}", f"stream {one.tid}"),
            *(run.base + one.begin, run.base + one.end, one.name, "", annotations(one.args)),
        )
        for one in run.of(SYNC)
    )
    lanes = sorted({(_device(one), _stream(one)) for one in stages})
    width = len(str(max((stream for _, stream in lanes), default=0)))
    kernels: dict[str, int] = {}
    for number, one in enumerate(stages, 1):
        lane = 100 + lanes.index((_device(one), _stream(one)))
        waits = int_field(18, awaited[id(one)]) if id(one) in awaited else b""
        trace.packet(run.base + one.begin, 53, _stage(trace, one, number, lane, kernels) + waits)
    pid = next((one.pid for one in run.of(*OPS, *CALLS)), 0)
    descriptors = _samples(trace, run, sorted({device for device, _ in lanes}))
    interned = descriptors + bytes_field(23, int_field(1, 1) + int_field(2, pid))
    for iid, title, category in _STAGES.values():
        interned += bytes_field(24, int_field(1, iid) + text_field(2, title) + int_field(4, category))
    for iid, (_, stream) in enumerate(lanes, 100):
        interned += bytes_field(24, int_field(1, iid) + text_field(2, f"[{stream:0{width}}] stream {stream}"))
    for name, iid in kernels.items():
        interned += bytes_field(1000, int_field(1, iid) + text_field(3, name))
    for iid, name in enumerate(("registers_per_thread", "shared_mem_dynamic", "thread_count"), 1):
        interned += bytes_field(1001, int_field(1, iid) + text_field(2, name))
    clocks = b"".join(bytes_field(1, int_field(1, clock) + int_field(2, run.base)) for clock in (6, 1))
    first = int_field(8, run.base) + int_field(10, 1) + bytes_field(6, clocks)
    path.write_bytes(gzip.compress(trace.written(interned, first), 1))
    return path


#: Counters of the device by their numbers, one sample of each when the first and the last work begins.
SAMPLES = {"Power (W)": (310.5, 402.25), "SM Clock (MHz)": (1980.0, 1755.0), "Cycles (Current Kernel)": (12.0, 7.0)}


def _samples(trace: Trace, run: Run, devices: list[int]) -> bytes:
    """Adds samples of counters, and returns their descriptors: cycles are whole, and in the group of kernels."""
    specs = b"".join(bytes_field(1, int_field(1, at) + text_field(2, name)) for at, name in enumerate(SAMPLES))
    described = specs + bytes_field(6, int_field(1, 6) + int_field(4, len(SAMPLES) - 1))
    if not run.work:
        return b""
    times = (run.base + min(one.begin for one in run.work), run.base + max(one.begin for one in run.work))
    for iid in range(1, len(devices) + 1):
        for at, values in enumerate(SAMPLES.values()):
            for ts, value in zip(times, values, strict=True):
                figure = int_field(2, int(value)) if at == len(SAMPLES) - 1 else double_tag(3) + double(value)
                trace.packet(ts, 52, int_field(4, iid) + bytes_field(2, int_field(1, at) + figure))
    return b"".join(
        bytes_field(47, int_field(1, iid) + int_field(3, device) + bytes_field(2, described))
        for iid, device in enumerate(devices, 1)
    )


def _device(one: Event) -> int:
    return int(one.args.get("device", one.pid))


def _stream(one: Event) -> int:
    return int(one.args.get("stream", one.tid))


def _stage(trace: Trace, one: Event, number: int, lane: int, kernels: dict[str, int]) -> bytes:
    """A GpuRenderStageEvent."""
    body = int_field(1, number) + int_field(2, one.end - one.begin) + int_field(11, _device(one))
    body += int_field(13, lane) + int_field(14, _STAGES[one.cat][0]) + int_field(5, 1)
    if one.cat in ("kernel", GPU_RANGE):
        body += int_field(20, trace.name(one.name))
    if one.cat == "kernel" and "grid" in one.args:
        block = one.args["block"]
        values = (one.args.get("registers per thread"), one.args.get("shared memory"), block[0] * block[1] * block[2])
        launch = bytes_field(1, _dim(one.args["grid"])) + bytes_field(2, _dim(block))
        for iid, value in enumerate(values, 1):
            launch += bytes_field(3, int_field(1, iid) + int_field(4, int(value))) if value else b""
        body += int_field(19, kernels.setdefault(one.name, len(kernels) + 1)) + bytes_field(21, launch)
    extra: dict[str, Any] = {
        "device id": _device(one),
        "context id": one.args.get("context", 1),
        "stream id": _stream(one),
    }
    extra |= {
        key: one.args.get(key) for key in ("correlation", "priority", "queued", "graph id", "graph node id", "bytes")
    }
    told = [(key, str(value)) for key, value in extra.items() if value or (key.endswith("id") and value is not None)]
    told += [("arch", "sm_90"), ("process_id", "1"), ("process_name", "python")]
    for key in COLLECTIVE:
        if key in one.args:
            value = one.args[key]
            told.append((key, value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))))
    return body + b"".join(bytes_field(6, text_field(1, key) + text_field(2, value)) for key, value in told)


def _dim(sizes: list[int]) -> bytes:
    return b"".join(int_field(axis, size) for axis, size in enumerate(sizes, 1))


def in_torch_slices(one: Event) -> Event | None:
    """What the form of slices holds: there are no categories, so that an operator is a range as any other."""
    if one.cat == GPU_RANGE:
        return None
    return replace(one, cat="user_annotation") if one.cat in OPS else in_torch_stages(one)


def torch_slices(run: Run, path: Path) -> Path:
    """The form of slices alone, without categories: streams are threads of processes that are devices."""
    trace = Trace()
    for cats in (OPS, *((cat,) for cat in (*CALLS, "kernel", "gpu_memcpy", "gpu_memset", SYNC))):
        rows = []
        for one in run.of(*cats):
            on_device = cats[0] not in (*OPS, *CALLS)
            title = f"stream {one.tid}" if on_device else f"thread {one.tid}"
            track = trace.thread(one.pid, one.tid, f"GPU {one.pid}" if on_device else "python", title)
            linked = one.correlation and (one.cat in ("kernel", "gpu_memcpy", "gpu_memset") or _LAUNCH.match(one.name))
            more = (_fixed64(47, one.correlation) if linked else b"") + annotations(one.args)
            rows.append((track, run.base + one.begin, run.base + one.end, one.name, "", more))
        trace.slices(rows)
    path.write_bytes(trace.written())
    return path


# ROCm


def as_hip(name: str) -> str:
    """The call of HIP that does what one of CUDA does."""
    if name in ("cuLaunchKernel", "cuLaunchKernelEx"):
        return "hipModuleLaunchKernel"
    return re.sub("^cuda", "hip", name)


def in_rocprof(one: Event) -> Event | None:
    """What rocprofv3 and rocprof-sys hold of a run.

    Calls have HIP's names, operators are markers, a memset is a kernel that fills. Collectives don't say what they
    move, waits have no records but the calls, and of annotations on the device there are none. A dispatch has the
    products of its sizes. The file is of one process.
    """
    if one.cat not in WORK:
        one = replace(one, pid=4242)
    if one.cat in CALLS:
        return only(one, ("correlation",), name=as_hip(one.name), cat="cuda_runtime")
    if one.cat in OPS:
        return only(one, (), cat="user_annotation")
    if one.cat == "kernel":
        grid, block = (_product(one.args.get(key)) for key in ("grid", "block"))
        sizes = {"grid": [grid], "block": [block]} if grid and block else {}
        return replace(only(one, ("device", "stream", "correlation")), args={**_placed(one), **sizes})
    if one.cat == "gpu_memset":
        return replace(one, cat="kernel", name="__amd_rocclr_fillBufferAligned", args=_placed(one))
    if one.cat == "gpu_memcpy":
        kept = {key: one.args[key] for key in ("bytes",) if key in one.args}
        args = {**_placed(one), **kept, "copy kind": direction(one)}
        return replace(one, name=f"MEMORY_COPY_{HSA[direction(one)]}", args=args)
    return None


def in_rocprof_queues(one: Event) -> Event | None:
    """What the two hold where tracks are queues: copies have tracks apart from the kernels of their stream."""
    held = in_rocprof(one)
    if held is None or held.cat != "gpu_memcpy":
        return held
    return replace(held, args={**held.args, "stream": 1000 + _stream(held)})


def _placed(one: Event) -> dict[str, Any]:
    return {"device": _device(one), "stream": _stream(one), "correlation": one.correlation}


def _product(sizes: Any) -> int:
    return sizes[0] * sizes[1] * sizes[2] if isinstance(sizes, list) and len(sizes) == 3 else 0


def direction(one: Event) -> str:
    """The direction of a copy."""
    if "copy kind" in one.args:
        return str(one.args["copy kind"])
    found = re.search(r"HtoD|DtoH|DtoD|PtoP", one.name)
    return found[0] if found else "DtoD"


HSA = {"HtoD": "HOST_TO_DEVICE", "DtoH": "DEVICE_TO_HOST", "DtoD": "DEVICE_TO_DEVICE", "PtoP": "DEVICE_TO_DEVICE"}


def _rows(run: Run, spell: Any, trace: Trace) -> None:
    """Adds the slices of a run track by track, each begin followed by its end as the session got them."""
    for one in sorted(run.events, key=lambda one: (one.begin, -one.end)):
        trace.slices([spell(one)])


def rocprofv3(run: Run, path: Path, *, by_queue: bool = True) -> Path:
    """rocprofv3: a track for each queue of an agent and for copies to one, or for each stream."""
    trace, first = Trace(), min((one.tid for one in run.of(*OPS, *CALLS)), default=1)
    trace.thread(4242, first, "python3", "python3")
    process, threads = trace.tracks["process", 4242], [first]

    def spelled(one: Event) -> tuple[int, int, int, str, str, bytes]:
        begin, end = run.base + one.begin, run.base + one.end
        times = {"begin_ns": begin, "end_ns": end, "delta_ns": end - begin}
        ids = {"corr_id": one.correlation, "tid": one.tid}
        stream = (
            trace.named(f'STREAM [" {_stream(one)} "] ', process)
            if not by_queue and one.cat not in (*OPS, *CALLS)
            else 0
        )
        if one.cat == "kernel":
            track = stream or trace.named(f"COMPUTE GPU [{_device(one)}] QUEUE [{_stream(one)}] GPU", process)
            more = {"agent": f"GPU-{_device(one)}", "agent_type": "GPU", **ids, "queue": _stream(one), "kernel_id": 7}
            more |= {"workgroup_size": one.args["block"][0]} if "block" in one.args else {}
            more |= {"grid_size": one.args["grid"][0] * one.args["block"][0]} if "grid" in one.args else {}
            more |= {"stream_ID": _stream(one)}
            category, name = "kernel_dispatch", one.name
        elif one.cat == "gpu_memcpy":
            source, target = (f"GPU-{_device(one)}" if side == "D" else "CPU-0" for side in direction(one)[::3])
            track = stream or trace.named(f"COPY to AGENT [{_device(one)}] THREAD [{_stream(one)}] (GPU)", process)
            more = {"src_agent": source, "dst_agent": target, "copy_bytes": one.args.get("bytes", 0), **ids}
            more |= {"stream_ID": _stream(one)}
            category, name = "memory_copy", one.name
        else:
            if one.tid not in threads:
                threads.append(one.tid)
            title = f"THREAD {threads.index(one.tid)} ({one.tid})"
            track = trace.named(title, process) if one.tid != first else trace.tracks[4242, first]
            category, name = ("hip_api" if one.cat in CALLS else "marker_api"), one.name
            more = {**ids, "ancestor_id": 0} | ({"stream_ID": 0} if one.cat in CALLS else {})
        tied = _fixed64(47, one.correlation) if one.correlation else b""
        return track, begin, end, name, category, tied + annotations(times | more)

    _rows(run, spelled, trace)
    path.write_bytes(trace.written())
    return path


def rocprof_sys(run: Run, path: Path, *, by_queue: bool = True) -> Path:
    """rocprof-sys: the like, with sizes as texts, and streams in a category that says no kind."""
    trace = Trace()

    def spelled(one: Event) -> tuple[int, int, int, str, str, bytes]:
        begin, end = run.base + one.begin, run.base + one.end
        times = {"begin_ns": begin, "end_ns": end, "corr_id": one.correlation}
        process = trace.thread(4242, 4242, "app", "app") and trace.tracks["process", 4242]
        stream = (
            trace.named(f"HIP Activity Stream {_stream(one)}", process)
            if not by_queue and _stream(one) and one.cat not in (*OPS, *CALLS)
            else 0
        )
        if one.cat == "kernel":
            track = stream or trace.named(f"GPU Kernel Dispatch [{_device(one)}] Queue {_stream(one)}", process)
            more = {"stream_id": _stream(one), "queue": _stream(one), "dispatch_id": 3, "kernel_id": 7}
            if "grid" in one.args:
                grid, block = one.args["grid"][0], one.args["block"][0]
                more |= {"workgroup_size": f"({block},1,1)", "grid_size": f"({grid * block},1,1)"}
            category, name = "rocm_kernel_dispatch", one.name
        elif one.cat == "gpu_memcpy":
            track = stream or trace.named(f"GPU Memory Copy to Agent [{_device(one)}] Thread {_stream(one)}", process)
            source, target = (_device(one) if side == "D" else 8 for side in direction(one)[::3])
            more = {"stream_id": _stream(one), "bytes": one.args.get("bytes", 0), "src_agent_id": source}
            more |= {"dst_agent_id": target, "operation": f"MEMORY_COPY_{HSA[direction(one)]}"}
            category, name = "rocm_memory_copy", one.name
        else:
            track = trace.thread(4242, one.tid, "app", f"thread {one.tid}")
            category, name = ("rocm_hip_api" if one.cat in CALLS else "rocm_marker_api"), one.name
            more = {}
        tied = _fixed64(47, one.correlation) if one.correlation else b""
        category = "rocm_hip_stream" if stream else category
        return track, begin, end, name, category, tied + annotations(times | more)

    _rows(run, spelled, trace)
    path.write_bytes(trace.written())
    return path
