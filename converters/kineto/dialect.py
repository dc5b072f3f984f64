"""The meaning of Kineto's categories, arguments and flows, for all versions and vendors (FORMATS: libkineto, torch)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Series

#: Arguments of all rows: the operator that started the work (lower case in 2021), and torch's fields of collectives.
_COMMON: dict[str, Into] = {
    "External id": Into("external_id"),
    "external id": Into("external_id"),
    "Process Group Name": Into("comm", "text"),
    "Seq": Into("comm_seq"),
}

#: Arguments of a launch, which HIP's calls have as well. Paddle writes "correlation id".
_LAUNCH: dict[str, Into] = _COMMON | {
    "correlation": Into("correlation"),
    "correlation id": Into("correlation"),
    "grid": Into("grid", "dims"),
    "block": Into("block", "dims"),
    "shared memory": Into("shared_memory"),
    "bytes": Into("bytes"),
}

_DEVICE: dict[str, Into] = _LAUNCH | {
    "registers per thread": Into("registers", "int32"),
    "est. achieved occupancy %": Into("occupancy", "float"),
    "theoretical achieved occupancy %": Into("occupancy", "float"),
}

#: AMD writes a copy's direction in `kind`, NVIDIA in its name. MTIA has `size`.
_COPY: dict[str, Into] = _DEVICE | {"kind": Into("copy_kind", "copy"), "size": Into("bytes")}

#: Calls that record an event that others wait for.
_RECORDS = frozenset(
    f"{api}EventRecord{suffix}" for api in ("cuda", "cu", "hip") for suffix in ("", "WithFlags", "_ptsz", "_spt")
)

_KERNEL = Rule("kernel", "device", _DEVICE)
_MEMCPY = Rule("memcpy", "device", _COPY)
_MEMSET = Rule("memset", "device", _DEVICE)
_API = Rule("api", columns=_LAUNCH, records=_RECORDS)
_OP = Rule("op", columns=_COMMON)
_RANGE = Rule("range", columns=_COMMON)
_SYNC = Rule("sync", "device", _LAUNCH, waits="wait_on_cuda_event_record_corr_id")
_CCP = Rule(
    "kernel",
    "device",
    _COPY,
    kinds={"dma_request": "memcpy", "event_wait": "sync", "event_record": "sync"},
)

_MEMORY = Rule(
    "alloc",
    columns={"Bytes": Into("bytes"), "Device Id": Into("device", "ordinal")},
    series={"Total Allocated": Series("allocated", "B"), "Total Reserved": Series("reserved", "B")},
)

#: Category -> what its slices are. From "Kernel" on: the names of 2021, which Paddle uses as well.
CATS: Mapping[str, Rule] = {
    "kernel": _KERNEL,
    "gpu_memcpy": _MEMCPY,
    "gpu_memset": _MEMSET,
    "gpu_user_annotation": Rule("range", "device", _COMMON),
    "cuda_sync": _SYNC,
    "cuda_runtime": _API,
    "cuda_driver": _API,
    "hip_runtime": _API,
    "xpu_runtime": _API,
    "xpu_driver": _API,
    "xpu_sync": Rule("sync", columns=_LAUNCH),
    "mtia_runtime": _API,
    "mtia_ccp_events": _CCP,
    "privateuse1_runtime": _API,
    "privateuse1_driver": _API,
    "glow_runtime": _API,
    "cpu_op": _OP,
    "hpu_op": _OP,
    "collective_comm": _OP,
    "user_annotation": _RANGE,
    "python_function": _RANGE,
    "mtia_insight": _RANGE,
    "Trace": _RANGE,
    "overhead": Rule("overhead", columns=_COMMON),
    "cuda_profiler_range": Rule("range", columns=_COMMON, metrics=True),
    "Kernel": _KERNEL,
    "Memcpy": _MEMCPY,
    "Memset": _MEMSET,
    "Runtime": _API,
    "Operator": _OP,
    "OperatorInner": _OP,
    "CudaRuntime": _API,
}

DIALECT = Dialect(
    cats=CATS,
    names={"[memory]": _MEMORY, "Record Window End": Rule("range", columns=_COMMON, track="Spans/PyTorch Profiler")},
    other=_RANGE,
    flows={"ac2g": None, "async_cpu_to_gpu": None, "async_gpu": None, "async": None, "fwdbwd": "fwdbwd"},
    device_pid=re.compile(r"GPU ([0-9]{1,9}) Counters"),
    stream_name=re.compile(r"stream ([0-9]{1,18})"),
)
