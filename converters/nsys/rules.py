"""The rules for tables of calls and ranges, by a pattern of the table's name.

OSRT_API                   api, named by nameId, stacks in OSRT_CALLCHAINS
GPU_VIDEO_ENGINE_WORKLOAD  range, named by the word of engineType (NVDEC), on the track "video engine 2"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .strings import NO_NAME


@dataclass(frozen=True)
class NsysRule:
    """How the rows of a table are read.

    `kind` is their kind. `names` are the columns of ids that may contain the name; a row without a name is named after
    the enumeration in the column `by`, else `word`, else the table. `gpu` is the column of the device, `chains` the
    table of call chains. `words` are enumerations of columns of this table. `track` is the track, with the number in
    the column `numbered`. With `open_end` an end may be null.
    """

    kind: str
    names: tuple[str, ...] = ("nameId",)
    word: str = NO_NAME
    by: str | None = None
    gpu: str | None = None
    chains: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    track: str | None = None
    numbered: str | None = None
    open_end: bool = False


_CALL = NsysRule("api")
_OPENACC = {"eventKind": "OPENACC_EVENT_KIND", "DeviceType": "OPENACC_DEVICE"}
_OPENMP = {"eventKind": "OPENMP_EVENT_KIND", "threadType": "OPENMP_THREAD", "priorTaskStatus": "OPENMP_TASK_STATUS"}
_OPENMP_KINDS = {
    "SYNC_REGION(_WAIT)?": "OPENMP_SYNC_REGION",
    "TASK": "OPENMP_TASK_FLAG",
    "MUTEX_WAIT|CRITICAL_SECTION|MUTEX_RELEASED|LOCK_INIT|LOCK_DESTROY": "OPENMP_MUTEX",
    "WORKSHARE": "OPENMP_WORK",
    "DISPATCH": "OPENMP_DISPATCH",
}
_WDDM = {
    "packetType": "WDDM_PACKET_TYPE",
    "engineType": "WDDM_ENGINE_TYPE",
    "interruptType": "WDDM_INTERRUPT_TYPE",
    "vidMmOpType": "WDDM_VIDMM_OP_TYPE",
    "pagingQueueType": "WDDM_PAGING_QUEUE_TYPE",
}
_DX12 = {"commandListType": "D3D12_CMD_LIST_TYPE"}
_JIT = {"jitEntryType": "CUPTI_JIT_ENTRY_TYPE", "jitOperationType": "CUPTI_JIT_OPERATION_TYPE"}
_KHR = {
    "source": "OPENGL_DEBUG_SOURCE",
    "khrdType": "OPENGL_DEBUG_TYPE",
    "severity": "OPENGL_DEBUG_SEVERITY",
}
_CUPTI = "CUPTI_ACTIVITY_KIND_"

#: Pattern of a table's name -> its rule.
RULES: dict[str, NsysRule] = {
    r"OSRT_API": NsysRule("api", chains="OSRT_CALLCHAINS"),
    r"SYSCALL(_\w+)?": NsysRule("api", chains="SYSCALL_CALLCHAINS"),
    r"CUDNN_EVENTS|CUBLAS_EVENTS|CUDA_GRAPH(_NODE|_EXEC)?_EVENTS|CUDA_HOST_FUNC\w*": _CALL,
    r"NVVIDEO_\w+_API|NVMEDIA\w*_API|NVAPI\w*|OPENCL\w*_API|OPENXR\w*": _CALL,
    r"TRACE_PROCESS_EVENT_NVMEDIA|TEGRA_INTERNAL_API_CALLS": _CALL,
    r"OPENGL_API|VULKAN_API|DXGI_API": _CALL,
    r"DX1[12]_API": NsysRule("api", words=_DX12),
    rf"{_CUPTI}OPENACC_\w+": NsysRule("api", words=_OPENACC),
    **{
        f"OPENMP_EVENT_KIND_({name})": NsysRule("range", words=_OPENMP | {"kind": enum})
        for name, enum in _OPENMP_KINDS.items()
    },
    r"OPENMP_EVENT_KIND_\w+": NsysRule("range", words=_OPENMP),
    r"MPI_(P2P|COLLECTIVES|START_WAIT|OTHER)_EVENTS": NsysRule("api", ("textId", "nameId"), open_end=True),
    r"UCP_(SUBMIT|PROGRESS)?_?EVENTS": NsysRule("api", ("textId", "nameId"), open_end=True),
    rf"{_CUPTI}OVERHEAD|PROFILER_OVERHEAD": NsysRule("overhead", by="overheadType"),
    rf"{_CUPTI}JIT": NsysRule("overhead", by="jitOperationType", words=_JIT),
    r"CUDA_HOST_CALLBACK": NsysRule("range", word="host function"),
    rf"{_CUPTI}GRAPH_HOST_NODE_AND_HOST_LAUNCH": NsysRule("range", word="host function"),
    rf"{_CUPTI}MEM_DECOMPRESS": NsysRule("memcpy", word="[CUDA memory decompression]"),
    rf"{_CUPTI}BLOCK_(PHASE_)?TRACE": NsysRule("range", word="block", track="SM", numbered="SMId"),
    rf"{_CUPTI}WARP_(PHASE_)?TRACE": NsysRule("range", ("EventName",), word="warp", track="SM", numbered="SMId"),
    r"(OPENGL|VULKAN)_WORKLOAD": NsysRule("range", gpu="gpu"),
    r"DX1[12]_WORKLOAD": NsysRule("range", gpu="gpu", words=_DX12),
    r"VULKAN_DEBUG_API|D3D1[12]_PIX_DEBUG_API": NsysRule("range", ("textId", "nameId"), words=_DX12, open_end=True),
    r"KHR_DEBUG_EVENTS": NsysRule("range", ("textId", "nameId"), words=_KHR, open_end=True),
    r"GPU_VIDEO_ENGINE_WORKLOAD": NsysRule(
        "range",
        word="video engine",
        by="engineType",
        words={"engineType": "VIDEO_ENGINE_TYPE", "codecId": "VIDEO_ENGINE_CODEC"},
        gpu="gpu",
        track="video engine",
        numbered="engineId",
    ),
    r"GPU_VIDEO_ENGINE_MISSING": NsysRule("range", word="missing ranges of a video engine", track="video engines"),
    r"GPU_CONTEXT_SWITCH_EVENTS": NsysRule(
        "range",
        word="context switch",
        by="tag",
        words={"tag": "GPU_CTX_SWITCH"},
        gpu="gpuId",
        track="context switches",
    ),
    r"WDDM_\w+_EVENTS": NsysRule("range", word="", gpu="gpu", words=_WDDM, track="WDDM"),
    r"SLI_(QUERIES|P2P|STATS)|NV_LOAD_BALANCE(_MASTER)?_EVENTS": NsysRule("range", word="", gpu="gpu", track="frames"),
    r"MEMORY_TRANSFER_EVENTS": NsysRule(
        "range",
        word="memory transfer",
        by="memoryTransferType",
        words={"memoryTransferType": "ETW_MEMORY_TRANSFER_TYPE"},
        gpu="gpu",
        track="memory transfers",
    ),
    r"NET_IB_SWITCH_CONGESTION_EVENTS?": NsysRule(
        "range",
        word="congestion",
        by="congestionType",
        words={"congestionType": "NET_IB_CONGESTION_EVENT_TYPE"},
        track="InfiniBand congestion",
    ),
}

#: The rule of an unknown table.
UNKNOWN = NsysRule("range", ("nameId", "textId"), word="", open_end=True)


def rule_of(table: str) -> NsysRule | None:
    """Returns the rule of a table, None for an unknown table."""
    bare = re.sub(r"_V\d+$", "", table, flags=re.IGNORECASE)
    return next((rule for pattern, rule in RULES.items() if re.fullmatch(pattern, bare, re.IGNORECASE)), None)
