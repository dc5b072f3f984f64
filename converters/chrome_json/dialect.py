"""What events of a program that nobody knows are: slices, and GPU work where category and arguments say so plainly."""

from __future__ import annotations

import re

from .._shared.trace_json.dialect import Dialect, Into, Rule

_PLACE = {"device": Into("device", "ordinal"), "context": Into("context"), "stream": Into("stream", "ordinal")}

_LAUNCH = {
    "correlation": Into("correlation"),
    "External id": Into("external_id"),
    "grid": Into("grid", "dims"),
    "block": Into("block", "dims"),
    "shared memory": Into("shared_memory"),
    "bytes": Into("bytes"),
}
_WORK = _PLACE | _LAUNCH | {"registers per thread": Into("registers", "int32")}

_KERNEL = Rule("kernel", columns=_WORK)
_MEMCPY = Rule("memcpy", columns=_WORK | {"kind": Into("copy_kind", "copy")})
_MEMSET = Rule("memset", columns=_WORK)
_API = Rule("api", columns=_LAUNCH)

#: Categories of other tools that trace GPUs. They are on the thread that the source says, and on args.device.
DIALECT = Dialect(
    cats={"cpu_op": Rule("op", columns={"External id": Into("external_id")})},
    patterns=(
        (re.compile(r"^(gpu_)?memcpy$", re.I), _MEMCPY),
        (re.compile(r"^(gpu_)?memset$", re.I), _MEMSET),
        (re.compile(r"^((gpu|cuda|hip)[_ ]?)?kernels?$", re.I), _KERNEL),
        (re.compile(r"^(cuda|hip|xpu)_(runtime|driver|api)$", re.I), _API),
    ),
)
