"""Rules for events of an unknown program: slices, and GPU work if category and arguments show it clearly."""

from __future__ import annotations

import re

from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign

_PLACE = {"device": Into("device", "ordinal"), "context": Into("context"), "stream": Into("stream", "ordinal")}

_LAUNCH = {
    "correlation": Into("correlation"),
    "External id": Into("external_id"),
    "grid": Into("grid", "dims"),
    "block": Into("block", "dims"),
    **{f"{column}_{axis}": Into(f"{column}_{axis}", "digits") for column in ("grid", "block") for axis in "xyz"},
    "shared memory": Into("shared_memory"),
    "bytes": Into("bytes"),
}
_WORK = _PLACE | _LAUNCH | {"registers per thread": Into("registers", "int32")}

_KERNEL = Rule("kernel", columns=_WORK)
_MEMCPY = Rule("memcpy", columns=_WORK | {"kind": Into("copy_kind", "copy")})
_MEMSET = Rule("memset", columns=_WORK)
_API = Rule("api", columns=_LAUNCH)

#: Work of Level Zero and OpenCL: kernels have their own names, other work has that of the call.
_GPU_OP = Rule(
    "kernel",
    columns=_WORK,
    named=(
        (re.compile(r"(zeCommandListAppend(Memory|Image)Copy|i?clEnqueue(Read|Write|Copy|SVMMemcpy))"), "memcpy"),
        (re.compile(r"(zeCommandListAppendMemoryFill|i?clEnqueue(Fill|SVMMemFill))"), "memset"),
        (re.compile(r"(zeCommandListAppend(?!Launch)|i?clEnqueue(Barrier|Marker|WaitForEvents))"), "sync"),
    ),
)

#: Categories of other tools that trace GPUs. Their events keep the source's thread, and are on args.device.
#: Signs: XLA has the details of work on its streams, rocmProfileData the kind of an operation in `desc`.
DIALECT = Dialect(
    cats={"cpu_op": Rule("op", columns={"External id": Into("external_id")}), "gpu_op": _GPU_OP},
    patterns=(
        (re.compile(r"^(gpu_)?memcpy$", re.I), _MEMCPY),
        (re.compile(r"^(gpu_)?memset$", re.I), _MEMSET),
        (re.compile(r"^((gpu|cuda|hip)[_ ]?)?kernels?$", re.I), _KERNEL),
        (re.compile(r"^(cuda|hip|xpu)_(runtime|driver|api)$", re.I), _API),
    ),
    signs=(
        Sign(("kernel_details",), _KERNEL),
        Sign(("memcpy_details",), _MEMCPY),
        Sign(("Memset_details",), _MEMSET),
        Sign(("desc",), _KERNEL, re.compile(r"KernelExecution|Task")),
        Sign(("desc",), _MEMCPY, re.compile(r"Copy(Host|Device)To(Host|Device)(2D|3D)?")),
        Sign(("desc",), _MEMSET, re.compile(r"FillBuffer")),
        Sign(("grid", "block", "stream"), _KERNEL),
        Sign(("grid", "block", "registers per thread"), _KERNEL),
    ),
    calls=re.compile(r"(cu|cuda|hip|hsa_|nccl|ze|cl)(?=[A-Z_])"),
)
