"""CUDA: names of calls as CUPTI has them."""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(?:_v\d+)?(?:_pt[sd][sz])?$")


def without_release(name: str) -> str:
    """Returns a call's name without its release: cudaMemcpyAsync for cudaMemcpyAsync_v3020_ptsz."""
    return _SUFFIX.sub("", name) or name
