"""The meaning of ONNX Runtime's categories and arguments (core/common/profiler.cc and the providers' profilers)."""

from __future__ import annotations

import re

from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign

#: Calls of a session and of its executors, which enclose the nodes.
_SESSION = Rule("range")

#: A node's execution on the host. Fences, up to 1.20, wait for other queues.
_NODE = Rule(
    "op",
    columns={"op_name": Into("operation", "text"), "provider": Into("library", "text")},
    named=((re.compile(r".*_fence_(?:before|after)\Z", re.DOTALL), "sync"),),
)

#: Arguments, and columns, of a launch: texts of whole numbers, -1 for a copy.
DIMENSIONS = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")

#: Work of a device. CUDA names copies MemcpyHostToDevice; ROCm has the name of the call for copies and fills.
_KERNEL = Rule(
    "kernel",
    columns={
        "stream": Into("stream", "ordinal"),
        **{key: Into(key, "ordinal") for key in DIMENSIONS},
        "size": Into("bytes", "digits"),
    },
    named=(
        (re.compile(r"(?:hip|cuda)?Memcpy"), "memcpy"),
        (re.compile(r"(?:hip|cuda)?Memset"), "memset"),
    ),
)

#: WebGPU's kernels have the category Api and are known by their arguments. Other events of that category are calls.
DIALECT = Dialect(
    cats={"Session": _SESSION, "Node": _NODE, "Kernel": _KERNEL},
    signs=(Sign(("cache_key", "shapes"), _KERNEL),),
    other=Rule("api"),
)

#: Suffixes of the names of nodes; what precedes them is the name of the node.
SUFFIX = re.compile(r"(.+)_(?:kernel_time|fence_before|fence_after)", re.DOTALL)

#: Arguments that are whole numbers, written as texts.
NUMBERS = (
    *("output_size", "activation_size", "parameter_size", "node_index", "graph_index", "exec_plan_index"),
    *("mem_in_use_peak", "mem_in_use_delta", "mem_bytes_in_use", "mem_arena_held", "mem_arena_held_delta"),
    *("mem_requested_in_use_delta", "mem_bytes_requested_in_use"),
)
