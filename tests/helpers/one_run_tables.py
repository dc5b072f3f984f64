"""Writes a run of PyTorch's profiler as the databases and the JSON of Nsight Systems and rocprofv3.

nsys            the SQLite export: operators are NVTX ranges, as torch.autograd.profiler.emit_nvtx makes them
rocpd           rocprofv3's database, and `rocprofv3_json` its JSON: operators are markers
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from nsys_samples import Row, Strings, call, environment, gpu, kernel, make, nvtx
from one_run import CALLS, OPS, SYNC, WORK, Event, Run, only
from one_run_perfetto import HSA, direction, in_rocprof
from rocm_samples import ROCPD_3, make_rocpd

#: CUpti_ActivityMemcpyKind, and the kinds of memory by the words of Kineto.
_COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
_MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}
_SYNCS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
_NO_STREAM = 0xFFFFFFFF


def in_nsys(one: Event) -> Event | None:
    """What Nsight Systems' export holds.

    Operators are ranges without arguments, collectives don't say what they move, calls and work don't name their
    operator, and what a stream waits for isn't exported by default.
    """
    if one.cat in CALLS:
        return only(one, ("correlation",))
    if one.cat in ("cpu_op", "user_annotation"):
        return only(one, (), cat="user_annotation")
    if one.cat in WORK:
        keys = ("device", "context", "stream", "correlation", "grid", "block", "registers per thread", "shared memory")
        return only(one, (*keys, "bytes"))
    if one.cat == SYNC and one.name in _SYNCS:
        return only(one, ("stream", "correlation", "device", "context", "cuda_sync_kind"))
    return None


def _at(one: Event, pid: int) -> Row:
    stream = int(one.args.get("stream", one.tid))
    return {
        **{"deviceId": int(one.args.get("device", one.pid)), "contextId": int(one.args.get("context", 1))},
        **{"streamId": stream if stream >= 0 else _NO_STREAM, "correlationId": one.correlation},
        "globalPid": 1 << 48 | pid << 24,
    }


def _short(name: str) -> str:
    """The name without namespaces, template arguments and parameters."""
    return re.split("[<(]", name.replace("(anonymous namespace)", ""))[0].split("::")[-1].removeprefix("void ")


def nsys(run: Run, path: Path) -> Path:
    """The database that `nsys export --type sqlite` makes."""
    texts = Strings()
    pid = next((one.pid for one in run.of(*CALLS)), 4242)
    prefix = "CUPTI_ACTIVITY_KIND_"
    tables: dict[str, list[Row]] = {
        **{f"{prefix}{name}": [] for name in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION")},
        "NVTX_EVENTS": [],
    }
    for one in run.events:
        begin, end, tid = one.begin, one.end, 1 << 48 | one.pid << 24 | one.tid & 0xFFFFFF
        if one.cat in OPS:
            tables["NVTX_EVENTS"].append(nvtx(59, begin, end, one.name, globalTid=tid, domainId=0))
        elif one.cat in CALLS:
            spelled = f"{one.name}_v3020" if one.cat == "cuda_runtime" else one.name
            row = call(texts, spelled, begin, end, one.correlation, int(one.cat == "cuda_driver"), globalTid=tid)
            tables[f"{prefix}RUNTIME"].append(row)
        elif one.cat == "kernel":
            shared = int(one.args.get("shared memory", 0))
            sizes: dict[str, Any] = {"dynamicSharedMemory": shared, "staticSharedMemory": 0}
            sizes |= {"registersPerThread": int(one.args.get("registers per thread", 0))}
            for name in ("grid", "block"):
                sizes |= dict(zip((f"{name}{axis}" for axis in "XYZ"), one.args.get(name, (1, 1, 1)), strict=True))
            sizes |= {"shortName": texts(_short(one.name)), "mangledName": texts(f"_Z{one.name}")}
            row = kernel(texts, one.name, begin, end, one.correlation, **sizes)
            tables[f"{prefix}KERNEL"].append({**row, **_at(one, pid)})
        elif one.cat == "gpu_memcpy":
            source, target = re.findall(r"(\w+) -> (\w+)", one.name)[0]
            kinds = {"copyKind": _COPIES[direction(one)], "srcKind": _MEMORY[source], "dstKind": _MEMORY[target]}
            moved = {"start": begin, "end": end, "bytes": one.args.get("bytes"), **kinds}
            tables[f"{prefix}MEMCPY"].append({**moved, **_at(one, pid)})
        elif one.cat == "gpu_memset":
            row = {"start": begin, "end": end, "bytes": one.args.get("bytes"), "value": 0, "memKind": 2}
            tables[f"{prefix}MEMSET"].append({**row, **_at(one, pid)})
        else:
            row = {"start": begin, "end": end, "syncType": _SYNCS[one.name], **_at(one, pid)}
            tables[f"{prefix}SYNCHRONIZATION"].append(row)
    devices = sorted({int(one.args.get("device", one.pid)) for one in run.work})
    about: dict[str, list[Row]] = {
        "PROCESSES": [{"globalPid": 1 << 48 | pid << 24, "pid": pid, "name": "python3"}],
        "TARGET_INFO_GPU": [gpu(device) for device in devices],
        "TARGET_INFO_SYSTEM_ENV": environment("node1"),
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": run.base, "utcTime": "2026-01-02T03:04:05"}],
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}],
        "ENUM_CUDA_MEMCPY_OPER": [
            {"id": number, "name": f"CUDA_MEMCPY_KIND_{word.upper()}", "label": word}
            for word, number in _COPIES.items()
        ],
    }
    return make(path, tables | about | {"StringIds": texts.rows()})


def in_rocpd(one: Event) -> Event | None:
    """What rocprofv3's database and JSON hold: that of its traces, with sizes in three dimensions."""
    held = in_rocprof(one)
    if held is None or held.cat != "kernel" or "grid" not in one.args:
        return held
    return replace(held, args={**held.args, "grid": one.args["grid"], "block": one.args["block"]})


def rocpd(run: Run, path: Path) -> Path:
    """rocprofv3's database, schema 3."""
    guid, texts, symbols = "00000000-0000-7000-8000-000000000042", {"": 1}, dict[str, int]()
    tables: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ROCPD_3}
    threads = {tid: number for number, tid in enumerate(sorted({one.tid for one in run.of(*OPS, *CALLS)}), 1)}
    devices = sorted({int(one.args["device"]) for one in run.work})
    cpu = len(devices) + 1

    def word(text: str) -> int:
        return texts.setdefault(text, len(texts) + 1)

    def event(category: str, one: Event, facts: str = "{}") -> int:
        number = len(tables["rocpd_event"]) + 1
        tables["rocpd_event"].append((number, guid, word(category), one.correlation, 0, 0, "{}", "{}", facts))
        return number

    for one in run.events:
        thread = threads.get(one.tid, 1)
        where = (len(tables["rocpd_event"]) + 1, guid, 77, 1, thread)
        if one.cat in OPS:
            marker = event("MARKER_CORE_RANGE_API", one, json.dumps({"message": one.name}))
            tables["rocpd_region"].append((*where, one.begin, one.end, word("roctxRangePushA"), marker, "{}"))
        elif one.cat in CALLS:
            stack = event("HIP_RUNTIME_API_EXT", one)
            tables["rocpd_region"].append((*where, one.begin, one.end, word(one.name), stack, "{}"))
        elif one.cat == "kernel":
            symbol = symbols.setdefault(one.name, len(symbols) + 1)
            grid, block = one.args.get("grid", (1, 1, 1)), one.args.get("block", (1, 1, 1))
            items = [blocks * threads_of for blocks, threads_of in zip(grid, block, strict=True)]
            agent = devices.index(one.args["device"]) + 1
            run_of = (agent, symbol, where[0], 1, one.args["stream"], one.begin, one.end, 0, 0, *block, *items, 1)
            tables["rocpd_kernel_dispatch"].append((*where, *run_of, event("KERNEL_DISPATCH", one), "{}"))
        else:
            agent = devices.index(one.args["device"]) + 1
            target, source = ((agent if side == "D" else cpu) for side in (direction(one)[3], direction(one)[0]))
            name = word(one.name)
            tables["rocpd_memory_copy"].append(
                (
                    *(*where, one.begin, one.end, name, target, 1, source, 2, one.args.get("bytes"), None),
                    *(one.args["stream"], None, event("MEMORY_COPY", one), "{}"),
                )
            )
    tables["rocpd_string"] = [(number, guid, text) for text, number in texts.items()]
    tables["rocpd_info_kernel_symbol"] = [
        (number, guid, 77, 1, 1, f"{name}.kd", name, 0, 48, 32, 4) for name, number in symbols.items()
    ]
    tables["rocpd_metadata"] = [(1, "schema_version", "3"), (2, "guid", guid)]
    tables["rocpd_info_node"] = [(77, guid, 1, "m1", "Linux", "node-a")]
    tables["rocpd_info_process"] = [(1, guid, 77, 1, 4242, 0, 1, "python3 train.py", "{}")]
    tables["rocpd_info_thread"] = [(number, guid, 77, 1, 1, tid, None) for tid, number in threads.items()]
    tables["rocpd_info_agent"] = [
        (cpu, guid, 77, 1, "CPU", 90, 90, 0, 0, "EPYC", "AMD EPYC", "CPU", "{}"),
        *(
            (number, guid, 77, 1, "GPU", device, device, device, 29_857, "gfx942", "AMD Instinct MI300X", "AMD", "{}")
            for number, device in enumerate(devices, 1)
        ),
    ]
    tables["rocpd_info_queue"] = [(1, guid, 77, 1, "Queue 0")]
    streams = sorted({int(one.args["stream"]) for one in run.work})
    tables["rocpd_info_stream"] = [(number, guid, 77, 1, f"Stream {number}") for number in streams]
    return make_rocpd(path, ROCPD_3, {f"_{guid.replace('-', '_')}": tables})


def rocprofv3_json(run: Run, path: Path) -> Path:
    """rocprofv3's JSON: operations and kinds are numbers of tables, kernels those of symbols."""
    kinds: dict[str, dict[str, int]] = {}
    symbols: dict[str, int] = {}
    messages: list[Any] = []
    records: dict[str, list[Any]] = {"kernel_dispatch": [], "hip_api": [], "marker_api": [], "memory_copy": []}

    def record(kind: str, operation: str, one: Event, **more: Any) -> dict[str, Any]:
        names = kinds.setdefault(kind, {})
        thread = 1 if one.cat in WORK else one.tid
        return {
            **{"size": 80, "kind": 1 + list(kinds).index(kind), "operation": names.setdefault(operation, len(names))},
            **{"correlation_id": {"internal": one.correlation, "external": 0}, "thread_id": thread},
            **{"start_timestamp": one.begin, "end_timestamp": one.end, **more},
        }

    for one in run.events:
        if one.cat in OPS:
            messages.append({"key": 10_000_000 + len(messages), "value": one.name})
            made = record("MARKER_CORE_API", "roctxRangePushA", one)
            made["correlation_id"] = {"internal": messages[-1]["key"], "external": 0}
            records["marker_api"].append(made)
        elif one.cat in CALLS:
            records["hip_api"].append(record("HIP_RUNTIME_API", one.name, one))
        elif one.cat == "kernel":
            grid, block = one.args.get("grid", (1, 1, 1)), one.args.get("block", (1, 1, 1))
            items = [blocks * threads for blocks, threads in zip(grid, block, strict=True)]
            about = {
                **{"size": 64, "agent_id": {"handle": 100 + one.args["device"]}, "queue_id": {"handle": 1}},
                **{"kernel_id": symbols.setdefault(one.name, len(symbols) + 1), "dispatch_id": len(records) + 1},
                **{"private_segment_size": 0, "group_segment_size": 0},
                **{"workgroup_size": dict(zip("xyz", block, strict=True))},
                **{"grid_size": dict(zip("xyz", items, strict=True))},
            }
            stream = {"stream_id": {"handle": one.args["stream"]}}
            made = record("KERNEL_DISPATCH", "KERNEL_DISPATCH_COMPLETE", one, dispatch_info=about, **stream)
            records["kernel_dispatch"].append(made)
        else:
            ends = [{"handle": 100 + one.args["device"] if side == "D" else 99} for side in direction(one)[::3]]
            more = {"src_agent_id": ends[0], "dst_agent_id": ends[1], "bytes": one.args.get("bytes", 0)}
            more |= {"stream_id": {"handle": one.args["stream"]}}
            records["memory_copy"].append(record("MEMORY_COPY", f"MEMORY_COPY_{HSA[direction(one)]}", one, **more))
    devices = sorted({int(one.args["device"]) for one in run.work})
    agents = [{"size": 312, "id": {"handle": 99}, "node_id": 90, "type": 1, "name": "EPYC"}]
    agents += [
        {
            **{"size": 312, "id": {"handle": 100 + device}, "node_id": device, "type": 2, "name": "gfx942"},
            **{"product_name": "AMD Instinct MI300X", "vendor_name": "AMD"},
        }
        for device in devices
    ]
    entry = {
        "metadata": {"node": {"hostname": "node-a", "system_name": "Linux"}, "pid": 4242, "command": ["python3"]},
        "agents": agents,
        "counters": [],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                *({"kind": kind, "operations": list(names)} for kind, names in kinds.items()),
            ],
            "marker_api": messages,
        },
        "kernel_symbols": [
            {"size": 64, "kernel_id": number, "kernel_name": f"{name}.kd", "formatted_kernel_name": name}
            for name, number in symbols.items()
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": records,
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [entry]}, indent=0, default=float))
    return path
