"""What to do about a finding: the line that a practitioner would give; "" where nothing general can be said.

exposed.copies            of pinned memory: Copy on a separate stream while kernels run.
idle.host_late            in a call of the loader: More workers of the loader ...
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from ktrace.analysis.work.findings import OF_ROCM, Finding, of_profiler
from ktrace.analysis.work.gaps import HOST_CLASSES, NO_SPAN
from ktrace.tables import brief

_COPIES = re.compile(r"(cuda|cu|hip)Memcpy\w*|aten::(copy_|to|_to_copy)$", re.A)
_WAITS = re.compile(r"Synchronize\w{0,200}$|aten::(item|_local_scalar_dense|nonzero|is_nonzero|equal)$", re.A)
_OPTIMISES = re.compile(r"optimizer\.(step|zero_grad)", re.I)
_OPERATOR = re.compile(r"(aten|c10d|torch|autograd)::|\w+Backward\d*$|(cuda|cu|hip)\w*Launch\w*", re.A)
_COMPILED = re.compile(r"torchinductor_|CompiledFxGraph|Torch-Compiled Region|triton_heuristics|cudagraph_trees")
_STEP = re.compile(r"ProfilerStep#|(train(ing)?|eval)?[_ ]?step\b|iteration\b|forward$|backward$", re.I)

_NO_WAIT = (
    "Don't wait within a step: no .item(), .cpu() or print of values there; copy with non_blocking=True and "
    "synchronise once, when the result is needed."
)
_LAUNCH_BOUND = (
    "Launch less often: larger batches, CUDA or HIP graphs (torch.compile with mode='reduce-overhead'), fused kernels."
)

#: What to do about each of `HOST_CLASSES`.
_BY_CLASS = {
    "data loading": "Let the loader prepare batches ahead: more workers, prefetch_factor, pin_memory=True.",
    "memory allocation": "Allocate once and keep the memory: a caching or pool allocator, buffers outside the loop.",
    "loading modules": "Load modules before the measured part: run a warm-up, or set CUDA_MODULE_LOADING=EAGER.",
    "compilation": "Compile before the measured part, and find recompilations: TORCH_LOGS=recompiles.",
}

#: What the host was in during idle time -> what to do.
_BY_HOST = (
    *((pattern, _BY_CLASS[name]) for name, pattern in HOST_CLASSES.items()),
    (_WAITS, _NO_WAIT),
    (_OPTIMISES, "Use an optimiser with fewer kernels: fused=True, or foreach=True."),
)

#: Where gaps are long: about copies, about calls and operators themselves, and about Python around them.
_BLOCKING = "Copy from pinned memory with non_blocking=True: other copies block the host until they are done."
_OPERATORS = "Call fewer operators between launches, or compile them (torch.compile), so that the host gets ahead."
_PYTHON = (
    "Look for your own code between the operators of a step (torch.profiler: with_stack=True; py-spy), and move "
    "logging, checks and data preparation out of it."
)

_NOT_KNOWN = "Record host calls, too: torch.profiler with ProfilerActivity.CPU, nsys profile --trace=cuda,nvtx,osrt."

#: Where calls are recorded, and still nothing says why a device was idle.
_NO_REASON = (
    "Record all calls and stream waits, including those of other processes on the device: no known call launched the "
    "work after these gaps, nothing that was recorded kept it waiting, or the host has no call in a long pause."
)

#: Where one gap is most of the time, what the launches or the operators do tells nothing.
_PAUSE = "Find out what the CPU did in one gap of {}, which is most of it: --explain idle marks it on the timeline."

_AFTER_WARM_UP = "Record steps after the first one: this is its warm-up."

#: What the names of formats of web pages begin with.
_OF_PAGES = ("webllm", "ort-web", "console")

#: What the name of a format begins with -> how its profilers record the calls of the host.
_HOST_OF = {
    OF_ROCM: "Record host calls, too: rocprofv3 --sys-trace.",
    ("ascend",): "Record host calls, too: torch_npu.profiler with ProfilerActivity.CPU, msprof --ascendcl=on.",
    ("tenstorrent",): (
        "The report has the times of the host on another clock: Tracy shows both on one timeline (python -m tracy -p)."
    ),
    ("unitrace", "onetrace"): "Record host calls, too: unitrace --chrome-call-logging.",
    _OF_PAGES: "Record what the page does on the CPU, too: the Performance panel of DevTools.",
}

_REMEDIES = {
    "idle.host_synchronised": _NO_WAIT,
    "idle.dependency": "See --by wait and --by queue: which event, copy or stream the queued work waits for.",
    "idle.launch_overhead": _LAUNCH_BOUND,
    "idle.between_graph_nodes": "Fuse small nodes of the graph, or let independent ones run on several streams.",
    "idle.setup": (
        "Do it before the measured part: run a warm-up, and record after it, or load modules at once "
        "(CUDA_MODULE_LOADING=EAGER)."
    ),
    "exposed.communication": (
        "Overlap it with compute: start collectives as soon as their data is ready, on a stream of their own; "
        "tune the sizes of buckets."
    ),
    "straggler": "Compare that rank with another by ktrace diff: its kernels, its host and its input.",
    "outside": "Prepare the next step's input while the device works on this one: in workers, or another thread.",
}

_WITH_KERNELS = "Copy on a separate stream while kernels run"

#: What names of copies tell of the memory -> what to do about such copies, where all that are shown are of it.
_BY_MEMORY = (
    (
        re.compile(r"DtoD|device.?to.?device|Device -> Device", re.I),
        f"Avoid copies within the device (clone, contiguous, cat), or fuse them with a kernel. {_WITH_KERNELS}.",
    ),
    (
        re.compile(r"(?<!un)pinned(?!.*pageable)|locked", re.I),
        f"{_WITH_KERNELS}: the memory is pinned, so that it can.",
    ),
    (
        re.compile(r"pageable", re.I),
        f"Use pinned memory: copies of pageable memory block the host. {_WITH_KERNELS} (PyTorch: non_blocking=True).",
    ),
)
_OF_ANY_MEMORY = f"{_WITH_KERNELS}; to and from the host use pinned memory."

_LATE_TOGETHER = "Compare these ranks with the others by ktrace diff: their kernels, their hosts and their input."
_UNBALANCED = "Find out when and why ranks are late (--by collective: who waited for whom)."

#: Gaps of this length, in ns, on average, come from the launches; longer ones from what the host does in between.
_OF_LAUNCHES = 300_000

#: What the host was in is what to change if it had this part of the time; less wouldn't help.
_MUCH = 0.1

#: Fewer launches show no pattern that advice could rest on, only how to record more, what to look at, or what one of
#: them shows.
FEWEST_LAUNCHES = 10
_WITHOUT_PATTERN = ("idle", "idle.unknown", "idle.dependency", "idle.setup", "straggler", "exposed.copies")

_HEAVIEST = "--by roofline says how far its kernels are from the device's peak, where shapes or metrics are recorded."

#: What the name of a format begins with -> what measures how far a kernel is from the peak of its device.
_PEAK = "Measure how far its kernels are from the device's peak:"
_PEAK_OF = {
    ("kineto",): (
        "--by roofline says how far its kernels are from the device's peak, if shapes were recorded: torch.profiler "
        "with record_shapes=True."
    ),
    OF_ROCM: f"{_PEAK} rocprof-compute profile.",
    ("nsys", "nvprof", "nvvp"): f"{_PEAK} ncu --set full; ktrace convert --metrics puts that on the timeline.",
    ("xctrace",): f"{_PEAK} Xcode's Metal debugger, by its performance limiters.",
    _OF_PAGES: f"{_PEAK} no browser does; count the operations and bytes of a kernel.",
}


#: What a kernel of a product that computes without tensor cores, or with the slower of them, is called.
_SIMT = re.compile(r"ampere_sgemm|cutlass_[89]\d_simt_sgemm", re.A)

#: CUTLASS' kernels for tensor cores, with their numbers and how many of them are aligned.
_TENSOR_OP = re.compile(r"cutlass\w{0,40}?_tensorop_(?:b?f16_)?([a-z]{0,9})\w{0,40}?gemm\w{0,90}?_align(\d{1,4})", re.A)
_OF_16_BITS = re.compile(r"tensorop_(?:b?f16_|h\d)", re.A)

_ALIGN = (
    "Pad the sizes of its products to multiples of 16 bytes (8 numbers of 16 bits): its kernels are those for "
    "unaligned data, which feed tensor cores more slowly."
)
_REDUCE = (
    "Let its products use tensor cores, if less precision will do: bf16 or f16, or TF32 "
    "(torch.set_float32_matmul_precision('high'))."
)

_INSIDE = "--by inside says how long its warps wait, and how multiprocessors share the work."


#: What is said of programs that aren't of PyTorch, or needn't be, instead: JAX compiles whole steps, and has none of
#: PyTorch's options; NVIDIA's and AMD's profilers record programs in any language.
_OF_PROGRAMS: dict[tuple[str, ...], dict[str, str]] = {
    ("xplane", "xprof"): {
        _LAUNCH_BOUND: (
            "Launch less often: larger batches, or more of a step in one jax.jit; on GPUs XLA can launch it as "
            "graphs (XLA_FLAGS=--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL)."
        ),
        _PYTHON: (
            "Look for your own code between the compiled functions of a step (jax.profiler.TraceAnnotation; py-spy), "
            "and move logging, checks and data preparation out of it."
        ),
    },
    (*OF_ROCM, "nsys", "nvprof", "nvvp"): {
        _LAUNCH_BOUND: (
            "Launch less often: larger batches, fused kernels, CUDA or HIP graphs (in PyTorch: torch.compile with "
            "mode='reduce-overhead')."
        ),
        _NO_WAIT: (
            "Don't wait between launches: copy asynchronously, from pinned memory, and synchronise once, when a result "
            "is needed (in PyTorch: no .item(), .cpu() or print of values there)."
        ),
        _BLOCKING: (
            "Copy asynchronously, from pinned memory (in PyTorch: non_blocking=True): other copies block the host "
            "until they are done."
        ),
        _PYTHON: (
            "Look for your own code between the launches (ranges of NVTX or ROCTX, samples of the CPU), and move "
            "logging, checks and data preparation out of it."
        ),
    },
}


def remedy(one: Finding, askable: Container[str] = (), formats: Sequence[str] = (), launches: int | None = None) -> str:
    """What to do about a finding that is worth a look, of an input that can answer these questions."""
    is_few = launches is not None and launches < FEWEST_LAUNCHES and one.details.get("host_recorded", True)
    if not one.look or (is_few and one.code not in _WITHOUT_PATTERN and not one.code.startswith("heaviest.")):
        return ""
    said = _remedy(one, askable, formats)
    return (of_profiler(_OF_PROGRAMS, formats) or {}).get(said, said)


def _remedy(one: Finding, askable: Container[str], formats: Sequence[str]) -> str:
    if one.code == "idle.unknown" and one.details.get("host_recorded"):
        return _NO_REASON
    if one.code in ("idle", "idle.unknown"):
        return of_profiler(_HOST_OF, formats) or _NOT_KNOWN
    if one.code in ("idle.host_late", "outside"):
        return _of_late_host(one)
    names = [row.name for row in one.evidence]
    if one.code == "exposed.copies":
        names_of_memory = (what for memory, what in _BY_MEMORY if names and all(map(memory.search, names)))
        return next(names_of_memory, _OF_ANY_MEMORY)
    if one.code == "exposed.communication" and "ranks_waited_ns" in one.details:
        why = _LATE_TOGETHER if "late_ranks" in one.details else _UNBALANCED
        return f"{why} {_REMEDIES[one.code]}"
    if one.code.startswith("heaviest."):
        for is_slow, what in ((_is_unaligned, _ALIGN), (_SIMT.search, _REDUCE)):
            if names and all(map(is_slow, names)):
                return what
        return _INSIDE if "inside" in askable else of_profiler(_PEAK_OF, formats) or _HEAVIEST
    if one.code == "idle.host_synchronised" and 2 * float(one.details.get("host_time_ns") or 0) >= one.value:
        host = str(one.details["host_was_in"])
        return next((_BY_CLASS[name] for name, pattern in HOST_CLASSES.items() if pattern.search(host)), _NO_WAIT)
    return _REMEDIES.get(one.code, "")


def _of_late_host(one: Finding) -> str:
    """What to do about a host that is late: by what it was in, or how long the gaps are."""
    if not one.details.get("host_recorded", True):
        return _NOT_KNOWN
    host, gaps = str(one.details.get("host_was_in") or ""), one.details.get("gaps")
    is_much = float(one.details.get("host_time_ns") or 0) >= _MUCH * one.value
    for pattern, what in _BY_HOST:
        if is_much and pattern.search(host):
            return what
    if one.details.get("warm_up"):
        return _AFTER_WARM_UP
    if one.code == "outside" or not isinstance(gaps, int):
        return _REMEDIES["outside"] if one.details.get("steps", 1) else ""
    if one.evidence and 2 * one.evidence[0].time_ns >= one.value:
        return _PAUSE.format(brief(one.evidence[0].time_ns))
    if one.value <= _OF_LAUNCHES * gaps or _COMPILED.search(host):
        return _LAUNCH_BOUND
    if _COPIES.match(host):
        return _BLOCKING
    if _OPERATOR.match(host):
        return _OPERATORS
    if not host or host == NO_SPAN or _STEP.match(host):
        return _PYTHON
    return f"Shorten what the host does in {host} between launches, or do it ahead of time in another thread."


def _is_unaligned(kernel: str) -> bool:
    """Whether it is a kernel of CUTLASS for data of which fewer than 16 bytes are aligned."""
    match = _TENSOR_OP.search(kernel)
    if match is None or match[1] not in ("s", "h"):  # others are of 8 or 64 bits
        return False
    return int(match[2]) * (2 if _OF_16_BITS.search(kernel) else 4) < 16
