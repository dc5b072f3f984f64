"""Reads the name of a row: its kind, the direction of a copy, the number of the launch.

void scan<float>(float*) [1098]      a kernel, launched by the call with that number
cudaLaunchKernel (scan [1098])       that call
Memcpy HtoD [sync]  Memset           a copy and a fill, as the Visual Profiler names them
[CUDA memcpy HtoD]  [CUDA memset]  [Unified Memory Memcpy DtoH]  [Unified Memory GPU page faults]  [Marker] step
GeForce GTX 1080 Ti (0)              a device and its number; printed tables cut it off, sometimes after the number
"""

from __future__ import annotations

import re
from typing import NamedTuple

_COPY = re.compile(r"\[(?:CUDA|Unified Memory) memcpy (\w+)(?: [^\]]*)?\]", re.IGNORECASE)

#: As the Visual Profiler writes them.
_BARE_COPY = re.compile(r"memcpy(?: (\w+))?(?: \[[^\]]*\])?", re.IGNORECASE)
_BARE_SET = re.compile(r"memset(?: \[[^\]]*\])?", re.IGNORECASE)
_LAUNCHED = re.compile(r"(.*\S) \[(\d{1,18})\]", re.DOTALL)
_LAUNCHES = re.compile(r"cu\w+ \((?:.* )?\[(\d{1,18})\]\)", re.DOTALL)
_API = re.compile(r"cu(?:da)?[A-Z]\w*(?: \(.*\))?|acc_\w+.*", re.DOTALL)
_MARKER = re.compile(r"\[(?:Marker|Range start|Range end)\]", re.IGNORECASE)
_DEVICE = re.compile(r"(.*\S) \((\d{1,9})\)?")


class Named(NamedTuple):
    """The parts of a name; `name` is without the number of the launch, which is `correlation`."""

    kind: str
    name: str
    copy_kind: str | None = None
    correlation: int | None = None


def named(text: str, on_device: bool) -> Named:
    """Returns the parts of a row's name. `on_device`: the row has a device or a grid."""
    if text.startswith("["):
        if copy := _COPY.fullmatch(text):
            return Named("memcpy", text, copy[1])
        if text.casefold().startswith("[cuda memset"):
            return Named("memset", text)
        return Named("range", text)
    if copy := _BARE_COPY.fullmatch(text):
        return Named("memcpy", text, copy[1])
    if _BARE_SET.fullmatch(text):
        return Named("memset", text)
    if not on_device or _API.fullmatch(text):
        launch = _LAUNCHES.fullmatch(text)
        return Named("api", text, None, int(launch[1]) if launch else None)
    launched = _LAUNCHED.fullmatch(text)
    return Named("kernel", launched[1], None, int(launched[2])) if launched else Named("kernel", text)


def device(text: str) -> tuple[int | None, str | None]:
    """Returns the number and the name of a device; the text may also be only a number."""
    if found := _DEVICE.fullmatch(text):
        return int(found[2]), found[1]
    return (int(text), None) if text.isdecimal() and len(text) < 10 else (None, text or None)
