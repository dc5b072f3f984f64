"""The categories of PyTorch's traces, as Trace Event JSON and as Perfetto traces: kinds, and arguments with a column.

"cat": "gpu_memcpy", "args": {"correlation": 7, "bytes": 8192}        kind memcpy, correlation 7, bytes 8192
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from .dialect import Into, Rule, Series

#: Arguments of all rows: the operator that started the work (lower case in 2021), and torch's fields of collectives.
COMMON: dict[str, Into] = {
    "External id": Into("external_id"),
    "external id": Into("external_id"),
    "Process Group Name": Into("comm", "text"),
    "Seq": Into("comm_seq"),
}

#: Arguments of a launch, which HIP's calls have as well. Paddle writes "correlation id".
LAUNCH: dict[str, Into] = COMMON | {
    "correlation": Into("correlation", "digits"),
    "correlation id": Into("correlation", "digits"),
    "grid": Into("grid", "dims"),
    "block": Into("block", "dims"),
    "shared memory": Into("shared_memory"),
    "bytes": Into("bytes", "digits"),
}

DEVICE: dict[str, Into] = LAUNCH | {
    "registers per thread": Into("registers", "int32"),
    "est. achieved occupancy %": Into("occupancy", "float"),
    "theoretical achieved occupancy %": Into("occupancy", "float"),
}

#: AMD writes a copy's direction in `kind`, NVIDIA in its name, torch's own monitor in `copy kind`. MTIA has `size`.
COPY: dict[str, Into] = DEVICE | {
    "kind": Into("copy_kind", "copy"),
    "copy kind": Into("copy_kind", "copy"),
    "size": Into("bytes", "digits"),
}

#: Calls that record an event that others wait for.
RECORDS = frozenset(
    f"{api}EventRecord{suffix}" for api in ("cuda", "cu", "hip") for suffix in ("", "WithFlags", "_ptsz", "_spt")
)

KERNEL = Rule("kernel", "device", DEVICE)
MEMCPY = Rule("memcpy", "device", COPY)
MEMSET = Rule("memset", "device", DEVICE)
API = Rule("api", columns=LAUNCH, records=RECORDS)
OP = Rule("op", columns=COMMON)

#: Engines of a Gaudi that aren't TPC or MME (those have kernels) share a category with calls of the host. Their pid is
#: 0, which no process has (github HabanaAI/gaudi-pytorch-bridge, backend/profiling/trace_sources/trace_parser.cpp).
_ENGINE = Rule("range", "device", LAUNCH, named=((re.compile("dma|memcpy", re.IGNORECASE), "memcpy"),))
RANGE = Rule("range", columns=COMMON)
SYNC = Rule("sync", "device", LAUNCH, waits="wait_on_cuda_event_record_corr_id")
_CCP = Rule("kernel", "device", COPY, kinds={"dma_request": "memcpy", "event_wait": "sync", "event_record": "sync"})

MEMORY = Rule(
    "alloc",
    columns={"Bytes": Into("bytes"), "Device Id": Into("device", "ordinal")},
    series={"Total Allocated": Series("allocated", "B"), "Total Reserved": Series("reserved", "B")},
)

#: Category -> what its slices are. From "Kernel" on: the names of 2021, which Paddle uses as well.
CATS: Mapping[str, Rule] = {
    "kernel": KERNEL,
    "gpu_memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "gpu_user_annotation": Rule("range", "device", COMMON),
    "graph_event_node": Rule("sync", "device", DEVICE),
    "graph_host_node": Rule("range", "device", DEVICE),
    "cuda_sync": SYNC,
    "cuda_runtime": API,
    "cuda_driver": API,
    "hip_runtime": API,
    "xpu_runtime": API,
    "xpu_driver": API,
    "xpu_sync": Rule("sync", columns=LAUNCH),
    "mtia_runtime": API,
    "mtia_ccp_events": _CCP,
    "privateuse1_runtime": API,
    "privateuse1_driver": API,
    "glow_runtime": API,
    "cpu_op": OP,
    "hpu_op": replace(OP, processes={0: _ENGINE}),
    "collective_comm": OP,
    "user_annotation": RANGE,
    "python_function": RANGE,
    "mtia_insight": RANGE,
    "Trace": RANGE,
    "overhead": Rule("overhead", columns=COMMON),
    "cuda_profiler_range": Rule("range", columns=COMMON, metrics=True),
    "Kernel": KERNEL,
    "Memcpy": MEMCPY,
    "Memset": MEMSET,
    "Runtime": replace(API, processes={0: _ENGINE}),
    "Operator": OP,
    "OperatorInner": OP,
    "CudaRuntime": API,
}
