"""What collectives are called: by NCCL, RCCL, oneCCL, HCCL, PyTorch, MPI.

operation_in("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)")     all_reduce
operation_in("_allgather_base")                                   all_gather
operation_in("hcom_reduceScatter__77_0_1")                        reduce_scatter
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Libraries of collectives in the names of kernels.
_LIBRARY = re.compile(r"n?r?ccl|msccl|oneccl|hccl|hcom", re.IGNORECASE)

#: Words in names, in the order in which they are looked for, and the operation.
_WORDS: tuple[tuple[str, str], ...] = (
    (r"all_?reduce", "all_reduce"),
    (r"all_?gather", "all_gather"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?to_?all", "all_to_all"),
    (r"broadcast", "broadcast"),
    (r"cross_device_reduce", "all_reduce"),
    (r"barrier", "barrier"),
    (r"send_?recv", "send_recv"),
    (r"reduce", "reduce"),
    (r"gather", "gather"),
    (r"scatter", "scatter"),
    (r"send(?![a-z])", "send"),
    (r"recv|receive", "recv"),
)
_OPERATION = [(re.compile(word, re.IGNORECASE), operation) for word, operation in _WORDS]

#: Sends and receives are between two ranks.
SENDS = frozenset({"send", "recv", "send_recv"})

#: At these no rank is done before the last one has begun.
WAITING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})


@lru_cache(maxsize=4096)
def operation_in(name: str) -> str | None:
    """The operation that a name contains, such as "all_reduce"; None if there is none."""
    return next((operation for word, operation in _OPERATION if word.search(name)), None)


def is_send(name: str) -> bool:
    """Whether the name is that of a send or receive."""
    return _SEND.search(name) is not None


def is_collective(name: str) -> bool:
    """Whether the name is that of a library's collective among all ranks of a group."""
    return _LIBRARY.search(name) is not None and _AMONG_ALL.search(name) is not None


_SEND = re.compile(r"send|recv", re.IGNORECASE)
_AMONG_ALL = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce", re.IGNORECASE)
