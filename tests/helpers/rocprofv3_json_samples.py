"""Small documents as rocprofv3 writes them in JSON, with invented records: rocprofv3 wrote none of them.

`python tests/converters/rocprofv3_json_samples.py` writes those of samples/ anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "samples" / "rocprofv3-json"

T = 5_000_000_000_000
CPU, GPU = 1_230_000_000_000_000_001, 18_000_000_000_000_000_002

KINDS = (
    ("NONE", ()),
    ("HIP_RUNTIME_API", ("hipLaunchKernel", "hipMemcpyAsync")),
    ("MARKER_CORE_API", ("roctxMarkA", "roctxRangePushA")),
    ("KERNEL_DISPATCH", ("KERNEL_DISPATCH_COMPLETE",)),
    ("MEMORY_COPY", ("MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE")),
    ("MEMORY_ALLOCATION", ("MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE")),
)

Json = dict[str, Any]


def record(kind: int, operation: int, stack: int, times: tuple[int, int], thread: int, **more: Any) -> Json:
    """A record of a list of buffer_records."""
    ids = {"internal": stack, "external": 0}
    about = {"size": 80, "kind": kind, "operation": operation, "thread_id": thread, "correlation_id": ids}
    return {**about, "start_timestamp": times[0], "end_timestamp": times[1], **more}


def dispatch(number: int, kernel: int = 1, items: int = 1_000) -> Json:
    """What a record says of a dispatch."""
    return {
        **{"size": 64, "agent_id": {"handle": GPU}, "queue_id": {"handle": 1}, "kernel_id": kernel},
        **{"dispatch_id": number, "private_segment_size": 16, "group_segment_size": 4_096},
        **{"workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": items, "y": 2, "z": 1}},
    }


def kernel(number: int, times: tuple[int, int], thread: int, *, stream: int = 0, symbol: int = 1) -> Json:
    """A record of kernel_dispatch."""
    more = {"dispatch_info": dispatch(number, symbol), "stream_id": {"handle": stream}}
    return record(3, 0, number + 2, times, thread, **more)


def counted(number: int, times: tuple[int, int] | None, thread: int, *values: tuple[int, float]) -> Json:
    """A record of counter_collection."""
    data = {"size": 96, "correlation_id": {"internal": number + 2, "external": 0}, "dispatch_info": dispatch(number)}
    if times:
        data |= {"start_timestamp": times[0], "end_timestamp": times[1]}
    records = [{"counter_id": {"handle": handle}, "value": value} for handle, value in values]
    return {"thread_id": thread, "lds_block_size_v": 4_096, "dispatch_data": data, "records": records}


def entry(pid: int, *, counters_have_times: bool = True) -> Json:
    """A process: markers, a copy, launches, an allocation, counters of two instances, odd records."""
    thread = pid + 1
    first, second = (T + 8_000, T + 18_000), (T + 17_000, T + 27_000)
    ends = {"dst_agent_id": {"handle": GPU}, "src_agent_id": {"handle": CPU}}
    gpu = {"node_id": 4, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "vendor_name": "AMD"}
    symbol = {"kernel_id": 1, "kernel_name": "_Z5scalePfi.kd", "sgpr_count": 48, "arch_vgpr_count": 32}
    names = {"formatted_kernel_name": "scale(float*, int) [clone .kd]", "truncated_kernel_name": "scale"}
    return {
        "metadata": {
            "node": {"hostname": "node-a", "system_name": "Linux"},
            **{"pid": pid, "init_time": T, "fini_time": T + 1, "command": ["/opt/app", "--steps", "2"]},
        },
        "agents": [
            {"size": 312, "id": {"handle": CPU}, "node_id": 0, "type": 1, "name": "EPYC"},
            {"size": 312, "id": {"handle": GPU}, **gpu, "cu_count": 304, "num_xcc": 8, "num_shader_banks": 32},
        ],
        "counters": [{"id": {"handle": 10}, "name": "SQ_BUSY_CYCLES"}, {"id": {"handle": 12}, "name": "SQ_WAVES"}],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": list(operations)} for kind, operations in KINDS],
            "marker_api": [{"key": 1, "value": "forward"}, {"key": 9, "value": 'say "hi"'}],
        },
        "kernel_symbols": [{"size": 0, "kernel_id": 0, "kernel_name": ""}, {"size": 64, **symbol, **names}],
        "callback_records": {
            "counter_collection": [
                counted(1, first if counters_have_times else None, thread, (10, 100.0), (10, 300.0), (12, 8.0)),
                counted(2, second if counters_have_times else None, thread, (12, 9.0), (97, 1.5)),
            ]
        },
        "buffer_records": {
            "kernel_dispatch": [
                kernel(1, first, thread),
                kernel(2, second, thread, stream=3),
                kernel(3, (0, 0), thread),
                kernel(4, (T + 30_000, T + 31_000), thread, symbol=60),
                kernel(5, (T + 33_000, T + 32_000), thread),
                kernel(6, (T + 34_000, (1 << 64) - 1), thread) | {"new_key": {"deep": [1, None]}},
                kernel(7, (T + 35_000, T + 36_000), thread) | {"new_key": "text"},
            ],
            "hip_api": [
                record(1, 1, 2, (T + 1_000, T + 5_000), thread),
                record(1, 0, 3, (T + 6_000, T + 7_000), thread),
                record(1, 0, 4, (T + 10_000, T + 12_000), thread),
                record(1, 77, 6, (T + 13_000, T + 14_000), thread),
            ],
            "hsa_api": [],
            "marker_api": [
                record(2, 1, 1, (T, T + 90_000), thread),
                record(2, 0, 9, (T + 20_000, T + 20_000), thread),
            ],
            "memory_copy": [record(4, 2, 2, (T + 2_000, T + 4_000), thread, **ends, bytes=4_096)],
            "memory_allocation": [
                record(
                    5, 1, 7, (T + 100, T + 200), thread, agent_id={"handle": GPU}, address="0x7f", allocation_size=64
                )
            ],
        },
    }


def document(entries: Sequence[Json], *, records_first: bool = False) -> str:
    """The document, in lines without indentation, as rocprofv3 writes it."""
    if records_first:
        entries = [dict(reversed(one.items())) for one in entries]
    return json.dumps({"rocprofiler-sdk-tool": list(entries)}, indent=0) + "\n"


SAMPLES = {
    "counters-with-times-new-keys-and-odd-times_results.json": document([entry(4_000)]),
    "records-before-the-names-two-processes_results.json": document(
        [entry(4_000, counters_have_times=False), entry(5_000)], records_first=True
    ),
}


def main() -> None:
    """Writes the samples."""
    for name, text in SAMPLES.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
