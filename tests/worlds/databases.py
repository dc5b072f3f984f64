"""Writes a rank of a world as Nsight Systems exports it, as rocprofv3 does (rocpd), and as XPlane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nsys_samples import GLOBAL_PID, PID, Row, Strings, environment, gpu, kernel, make, nvtx, place
from nsys_samples import call as called
from rocm_samples import ROCPD_3, make_rocpd
from xplane_samples import START, PlaneMaker, message, task

from .world import WORK, Record, World

#: Copies by the directions that nsys numbers, and rocprofv3 names.
_COPIES = {"HtoD": (1, "HOST_TO_DEVICE"), "DtoH": (2, "DEVICE_TO_HOST"), "DtoD": (8, "DEVICE_TO_DEVICE")}
_RANGES = ("op", "range", "step")


def _way(name: str) -> tuple[int, str]:
    return next(way for word, way in _COPIES.items() if word in name)


def nsys(world: World, path: Path, rank: int = 0) -> Path:
    """Nsight Systems: operators, ranges and steps are NVTX."""
    text, records = Strings(), world.records(rank)
    tables: dict[str, list[Row]] = {
        f"CUPTI_ACTIVITY_KIND_{name}": [] for name in ("KERNEL", "MEMCPY", "RUNTIME", "SYNCHRONIZATION")
    }
    tables["NVTX_EVENTS"] = []
    for one in records:
        tid = GLOBAL_PID | PID + (one.thread or 1) - 1
        if one.kind in _RANGES:
            tables["NVTX_EVENTS"].append(nvtx(59, one.begin, one.end, one.name, globalTid=tid, domainId=0))
        elif one.kind == "api":
            name = f"{one.name}_v{10000 if 'Graph' in one.name else 3020}"
            row = called(text, name, one.begin, one.end, one.correlation or 0, globalTid=tid)
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(row)
        elif one.kind in ("kernel", "collective"):
            row = kernel(text, one.name, one.begin, one.end, one.correlation or 0, one.stream or 0)
            tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(row)
        elif one.kind == "copy":
            kind = {"bytes": one.bytes, "copyKind": _way(one.name)[0]}
            where = place(one.correlation, one.stream or 0)
            tables["CUPTI_ACTIVITY_KIND_MEMCPY"].append({"start": one.begin, "end": one.end, **where, **kind})
        else:
            kind = {"syncType": 2 if one.kind == "wait" else 4 if one.stream is None else 3}
            where = place(one.correlation, 0xFFFFFFFF if one.stream is None else one.stream)
            tables["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append({"start": one.begin, "end": one.end, **where, **kind})
    about: dict[str, list[Row]] = {
        "PROCESSES": [{"globalPid": GLOBAL_PID, "pid": PID, "name": "python3"}],
        "TARGET_INFO_GPU": [gpu(0)],
        "TARGET_INFO_SYSTEM_ENV": environment("node1"),
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": START, "utcTime": "2026-01-02T03:04:05"}],
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}],
        "ENUM_CUDA_MEMCPY_OPER": [
            {"id": number, "name": f"CUDA_MEMCPY_KIND_{word.upper()}", "label": word}
            for word, (number, _) in _COPIES.items()
        ],
    }
    return make(path, tables | about | {"StringIds": text.rows()})


def rocpd(world: World, path: Path, rank: int = 0) -> Path:
    """rocprofv3: the API is HIP's, operators, ranges and steps are markers."""
    guid, texts, symbols = f"00000000-0000-7000-8000-{world.seed:012x}", {"": 1}, dict[str, int]()
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ROCPD_3}

    def word(text: str) -> int:
        return texts.setdefault(text, len(texts) + 1)

    def event(category: str, one: Record, facts: str = "{}") -> int:
        number = len(tables["rocpd_event"]) + 1
        stack = one.correlation or 10_000_000 + one.piece
        tables["rocpd_event"].append((number, guid, word(category), stack, 0, 0, "{}", "{}", facts))
        return number

    for one in world.records(rank):
        where = (len(tables["rocpd_event"]) + 1, guid, 77, 1, one.thread or 1)
        if one.kind in _RANGES:
            marker = event("MARKER_CORE_RANGE_API", one, f'{{"message": "{one.name}"}}')
            tables["rocpd_region"].append((*where, one.begin, one.end, word("roctxRangePushA"), marker, "{}"))
        elif one.kind == "api":
            name = word(one.name.replace("cuda", "hip"))
            tables["rocpd_region"].append((*where, one.begin, one.end, name, event("HIP_RUNTIME_API", one), "{}"))
        elif one.kind in ("kernel", "collective"):
            symbol = symbols.setdefault(one.name, len(symbols) + 1)
            run = (4, symbol, where[0], 1, one.stream, one.begin, one.end, 0, 0, 128, 1, 1, 32_768, 1, 1, 1)
            tables["rocpd_kernel_dispatch"].append((*where, *run, event("KERNEL_DISPATCH", one), "{}"))
        elif one.kind == "copy":
            run = (
                one.begin,
                one.end,
                word(f"MEMORY_COPY_{_way(one.name)[1]}"),
                4,
                1,
                0,
                2,
                one.bytes,
                None,
                one.stream,
            )
            tables["rocpd_memory_copy"].append((*where, *run, None, event("MEMORY_COPY", one), "{}"))
    tables["rocpd_string"] = [(number, guid, text) for text, number in texts.items()]
    tables["rocpd_info_kernel_symbol"] = [
        (number, guid, 77, 1, 1, f"{name}.kd", name, 0, 48, 32, 4) for name, number in symbols.items()
    ]
    tables["rocpd_metadata"] = [(1, "schema_version", "3"), (2, "guid", guid)]
    tables["rocpd_info_node"] = [(77, guid, 1, "m1", "Linux", "node-a")]
    tables["rocpd_info_process"] = [(1, guid, 77, 1, PID, 0, world.span, "python3 train.py", "{}")]
    tables["rocpd_info_thread"] = [(thread, guid, 77, 1, 1, PID + thread - 1, None) for thread in (1, 2)]
    tables["rocpd_info_agent"] = [
        (0, guid, 77, 1, "CPU", 0, 0, 0, 0, "EPYC", "AMD EPYC", "CPU", "{}"),
        (4, guid, 77, 1, "GPU", 4, 1, 0, 29_857, "gfx942", "AMD Instinct MI300X", "AMD", "{}"),
    ]
    tables["rocpd_info_queue"] = [(1, guid, 77, 1, "Queue 0")]
    streams = sorted({one.stream for one in world.pieces if one.stream is not None})
    tables["rocpd_info_stream"] = [(number, guid, 77, 1, f"Stream {number}") for number in streams]
    return make_rocpd(path, ROCPD_3, {f"_{guid.replace('-', '_')}": tables})


def xplane(world: World, path: Path, rank: int = 0) -> Path:
    """XPlane of a CUDA device: streams and threads are lines, times are ps from the start of a line."""
    device, host, records = PlaneMaker(f"/device:GPU:{rank}"), PlaneMaker("/host:CPU"), world.records(rank)
    for stream in sorted({one.stream for one in records if one.kind in WORK and one.stream is not None}):
        mine = [one for one in records if one.kind in WORK and one.stream == stream]
        events = [device.event(one.name, one.begin * 1000, one.dur * 1000, *_stats(device, one)) for one in mine]
        device.line(stream, f"Stream #{stream}(Kernel,Memcpy)", 0, *events)
    for thread in (1, 2):
        mine = [one for one in records if one.thread == thread]
        events = [host.event(one.name, one.begin * 1000, one.dur * 1000, *_stats(host, one)) for one in mine]
        host.line(PID + thread - 1, f"python/{PID + thread - 1}", 0, *events)
    host.own("process_id", 4, PID)
    path.write_bytes(device.made() + host.made() + task(START) + message((4, "node-a")))
    return path


def _stats(plane: PlaneMaker, one: Record) -> list[bytes]:
    found = [] if one.correlation is None else [plane.stat("correlation_id", 3, one.correlation)]
    if one.kind in ("kernel", "collective"):
        details = "regs:64 static_shared:0 dynamic_shared:0 grid:256,1,1 block:128,1,1 occ_pct:50"
        found.append(plane.stat("kernel_details", 7, details))
    if one.kind == "copy":
        found.append(plane.stat("memcpy_details", 7, f"kind_src:pinned kind_dst:device size:{one.bytes} async:1"))
    return found
