"""What a trace takes in memory: the sizes of objects with all that they lead to."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import pyarrow as pa

#: What belongs to the program, and not to one trace.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)

_ARROW = (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


def size_of(what: object, besides: object = None) -> int:
    """Bytes of an object and of all that it leads to, each counted once, without those that `besides` leads to."""
    seen: set[int] = set()
    _reached(besides, seen)
    return _reached(what, seen)


def _reached(what: object, seen: set[int]) -> int:
    size = 0
    waiting: list[Any] = [what]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _SHARED):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one) + (one.get_total_buffer_size() if isinstance(one, _ARROW) else 0)
        waiting += gc.get_referents(one)
    return size
