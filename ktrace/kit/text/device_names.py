"""The kind of device work by its name: a copy with its direction, a fill, a wait, else a kernel.

Memcpy HtoD (Pageable -> Device)           PyTorch, CUPTI
[CUDA memcpy HtoD]  [CUDA memset]          nvprof, nsys
CopyHostToDevice                           ROCm
zeCommandListAppendMemoryCopy(M2D)[4096]   Level Zero, as unitrace writes it: M, H mean host memory, D device memory
clEnqueueReadBuffer                        OpenCL; iclEnqueueReadBuffer on macOS
"""

from __future__ import annotations

import re

_SIDE = {"H": "H", "M": "H", "D": "D", "P": "P", "A": "A"}
_HOST_OR_DEVICE = {"host": "H", "device": "D", "peer": "P"}

_WAY = re.compile(r"\b([HDPMAS])(?:to|2)([HDPMAS])\b")
_WORDS = re.compile(r"copy(Host|Device|Peer)To(Host|Device|Peer)", re.IGNORECASE)
_OPENCL = {"clEnqueueReadBuffer": "DtoH", "clEnqueueWriteBuffer": "HtoD"}

_COPY = re.compile(
    r"\[?(?:\w+ )?memcpy\b|Copy(?:Host|Device|Peer)To(?:Host|Device|Peer)"
    r"|zeCommandListAppend(?:Memory|Image)Copy|i?clEnqueue(?:Read|Write|Copy|SVMMemcpy|MemcpyINTEL)",
    re.IGNORECASE,
)
_FILL = re.compile(
    r"\[?(?:\w+ )?memset\b|zeCommandListAppendMemoryFill|i?clEnqueue(?:Fill|SVMMemFill|MemFill|MemsetINTEL)",
    re.IGNORECASE,
)
_SYNC = re.compile(r"zeCommandListAppend(?!Launch)|i?clEnqueue(?:Marker|Barrier|WaitForEvents)", re.IGNORECASE)


def device_work(name: str) -> tuple[str, str | None]:
    """Returns the kind of the work and, if the name states it, the direction of a copy, such as `HtoD`.

    Any other command of Level Zero (a barrier, the reset of an event, a query of time) is `sync`.
    """
    text = name.strip().strip('"')
    if _COPY.match(text):
        return "memcpy", _direction(text)
    if _FILL.match(text):
        return "memset", None
    if _SYNC.match(text):
        return "sync", None
    return "kernel", None


def _direction(text: str) -> str | None:
    if match := _WAY.search(text):
        sides = _SIDE.get(match[1]), _SIDE.get(match[2])
        return f"{sides[0]}to{sides[1]}" if None not in sides else None
    if match := _WORDS.search(text):
        return f"{_HOST_OR_DEVICE[match[1].lower()]}to{_HOST_OR_DEVICE[match[2].lower()]}"
    return next((way for call, way in _OPENCL.items() if text.removeprefix("i").startswith(call)), None)
