"""Comparisons of CPU time that hold on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Fault = TypeVar("_Fault")

#: So often in a row must a fault be seen.
_ATTEMPTS = 3


def cpu_seconds(work: Callable[..., object], *arguments: object) -> float:
    """CPU time of this thread that a call of `work` takes."""
    begin = time.thread_time()
    work(*arguments)
    return time.thread_time() - begin


def lasting(fault: Callable[[], _Fault]) -> _Fault:
    """What `fault` returns at the last of three attempts, or the first falsy value: no fault.

    A virtual machine charges the pauses of its host to whoever runs: among ten thousand tests, one comparison of times
    fails in some runs. What grows with the square of its input fails each time.
    """
    for _ in range(_ATTEMPTS):
        found = fault()
        if not found:
            break
    return found
