"""Derives the kind of GPU work from its name: `[CUDA memcpy Host-to-Device]`, `[CUDA memset]`, else a kernel."""

from __future__ import annotations

import re

#: The name of a range without a name.
NO_NAME = "[no name]"

_COPY = re.compile(r"\[CUDA (?:Unified Memory )?memcpy (?:Unified )?(?P<way>[\w-]+)\]", re.IGNORECASE)
_LONG_WAY = re.compile(r"(\w)\w*-to-(\w)\w*", re.IGNORECASE)


def kind_of(name: str, category: str = "") -> str:
    """Returns the kind of a row in a report with several; `cuda_gpu_sum` and `cuda_api_gpu_sum` have a `category`."""
    category = category.upper()
    if "API" in category:
        return "api"
    if "KERNEL" in category or not name.startswith("["):
        return "kernel"
    return "memset" if "memset" in name.casefold() else "memcpy"


def copy_kind(name: str) -> str | None:
    """Returns the direction of a copy as the model writes it (`HtoD`), None if the name has none."""
    if not (found := _COPY.fullmatch(name)):
        return None
    way = found.group("way")
    ends = _LONG_WAY.fullmatch(way)
    return f"{ends.group(1).upper()}to{ends.group(2).upper()}" if ends else way
