"""The kind of a row, by its name and by whether the CPU or a device spent time in it.

aten::mm                      CPU time: an operator
cudaLaunchKernel              CPU time: a call
volta_sgemm_128x64_nn         only device time: a kernel
Memcpy HtoD (...)             only device time: a copy
ProfilerStep*                 only device time: a range around kernels; CPU time: an operator with its own self time
"""

from __future__ import annotations

import re

from ktrace.kit.text.device_names import device_work

#: Ranges that PyTorch and libraries for it open themselves; on a device they enclose the kernels.
_RANGE = re.compile(
    r"ProfilerStep[*#]|## .*|Optimizer\.\w+#|Torch-Compiled Region|DistributedDataParallel\.|FullyShardedDataParallel\."
    r"|FSDP::|enumerate\(DataLoader\)|nccl:|gloo:|\[pl\]|\[Strategy\]|\[LightningModule\]|\[Callback\]"
)
_OPERATOR = re.compile(r"(?:aten|prims?|c10d|_?c10d_functional|torch\w*|autograd|quantized|nvprims|inductor)::")
_CALL = re.compile(r"(?:cuda|cu|hip|hsa_|ze|cl|musa|xpu|acl|aclnn)(?=[A-Z_])\w+")
_OVERHEAD = re.compile(
    r"(?:Activity Buffer Request|Buffer Flush|Lazy Function Loading|Runtime Triggered Module Loading"
    r"|Command Buffer Full|Instrumentation|Resource|Cupti\w*|Unrecognized)"
)


def host_kind(name: str) -> str:
    """The kind of a row with CPU time."""
    if name.startswith("[memory]"):
        return "alloc"
    if _OVERHEAD.fullmatch(name):
        return "overhead"
    return "api" if _CALL.fullmatch(name) else "op"


def device_kind(name: str) -> tuple[str, str | None]:
    """The kind of a row with only device time, and the direction of a copy."""
    if _RANGE.match(name):
        return "range", None
    if _OPERATOR.match(name):
        return "op", None
    return device_work(name)
