"""Lines of ggml's Vulkan backend and of test-backend-ops as values.

ADD: 2598 x 4230.26 us = 1.09902e+07 us                                           since the end of 2025
MUL_MAT_VEC m=11008 k=4096: 2 x 200.069 us (901.2 GFLOPS/s)                       2025: without the total
MUL_MAT_VEC m=11008 k=4096: 2 x 200.069 ms                                        2024: microseconds, labelled ms
  ADD(type=f32,ne=[10,5,4,3],nr=[1,1,1,1]):   8192 runs -  1.85 us/run -  7 kB/run -  3.61 GB/s
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal

_NUMBER = r"\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,2})?"
_KERNEL = re.compile(
    rf"(?P<name>.+): (?P<count>\d{{1,12}}) x (?P<avg>{_NUMBER}) (?P<unit>us|ms)"
    rf"(?: = (?P<total>{_NUMBER}) us)?(?: \((?P<rate>{_NUMBER}|inf|-?nan) GFLOPS/s\))?\s*"
)
_TOTAL = re.compile(rf"Total time: (?P<total>{_NUMBER}) us\.\s*")
_COLOUR = re.compile(r"\x1b\[[\d;]{0,12}m")
_TEST = re.compile(
    rf"\s*(?P<name>[^\s:](?:.*?\S)??)\s*:\s+(?P<count>\d{{1,12}}) runs -\s*(?P<avg>{_NUMBER}) us/run -\s*"
    rf"(?P<size>{_NUMBER}) (?P<of>kB|[kKMGT]FLOP)/run -\s*(?P<rate>{_NUMBER}) (?P<unit>GB/s|[kKMGT]FLOPS)\s*"
)

#: Decimals beyond these are no figures of a profiler.
_GREATEST = Decimal(10) ** 27


@dataclass(frozen=True)
class Work:
    """Some runs of an operation: times in ns, rates under the source's own unit."""

    name: str
    count: int
    avg: float
    total: float | None = None
    args: dict[str, float] = field(default_factory=dict)
    mislabelled: bool = False


def _ns(us: str) -> float | None:
    exact = Decimal(us) * 1000
    return float(exact) if exact < _GREATEST else None


def vulkan_row(text: str) -> Work | None:
    """Returns a row of the Vulkan backend's timings; None for anything else."""
    found = _KERNEL.fullmatch(text)
    avg = _ns(found["avg"]) if found else None
    if not found or avg is None:
        return None
    total = _ns(found["total"]) if found["total"] else None
    rate = found["rate"]
    args = {"GFLOPS/s": float(rate)} if rate and rate[-1].isdigit() else {}
    return Work(found["name"], int(found["count"]), avg, total, args, found["unit"] == "ms")


def vulkan_total(text: str) -> float | None:
    """Returns the total below the rows in ns; None for anything else."""
    found = _TOTAL.fullmatch(text)
    return _ns(found["total"]) if found else None


def tested(text: str) -> Work | None:
    """Returns a line of `test-backend-ops perf`; None for anything else."""
    found = _TEST.fullmatch(_COLOUR.sub("", text)) if "us/run" in text else None
    avg = _ns(found["avg"]) if found else None
    if not found or avg is None:
        return None
    args = {f"{found['of']}/run": float(found["size"]), found["unit"]: float(found["rate"])}
    return Work(found["name"], int(found["count"]), avg, args=args)
