"""What a collective moves, from the arguments of its event, and the factors of bandwidth.

Of all_gather the bytes are those of the whole output, of reduce_scatter those of the whole input, as in nccl-tests
(doc/PERFORMANCE.md). Kineto states both sides; NCCL Inspector and HCCL the count of one rank, which for these two, and
for all_to_all, is a part of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ktrace.model.fitting import whole
from ktrace.naming.taxonomy import SENDS, operation_in

#: Bytes of an element, by the names of torch and HCCL.
_BYTES: dict[str, int] = {
    **dict.fromkeys(("bool", "byte", "char", "int8", "uint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "uint16", "int16", "fp16", "bfp16", "float16"), 2),
    **dict.fromkeys(("float", "int", "uint32", "int32", "fp32", "float32"), 4),
    **dict.fromkeys(("double", "long", "uint64", "int64", "fp64", "float64", "complexfloat"), 8),
    "complexdouble": 16,
    "unsigned char": 1,
    "signed char": 1,
    "short int": 2,
    "long int": 8,
}

#: The size of the group, by Kineto, NCCL Inspector, HCCL.
_RANKS = ("Group size", "n_ranks", "rankSize")

#: Greatest number that counts as a size.
_LIMIT = 1 << 62

#: Operations whose bytes are those of one rank times the number of ranks, if a source states those of one rank.
_OF_ALL = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})

#: Bus bandwidth in parts of the algorithm bandwidth, by the number of ranks (nccl-tests); a number for any of them.
_FACTORS: dict[str, Callable[[int], float] | float] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    **dict.fromkeys(_OF_ALL, lambda ranks: (ranks - 1) / ranks),
    **dict.fromkeys(("broadcast", "reduce", *SENDS), 1.0),
}


def factor_of(operation: str, ranks: int | None) -> float | None:
    """Bus bandwidth in parts of the algorithm bandwidth, None if it isn't known; a rank alone has no bus."""
    factor = _FACTORS.get(operation)
    if not callable(factor):
        return factor
    return None if ranks is None or ranks < 2 else factor(ranks)


class Facts(NamedTuple):
    """What the arguments of a collective state.

    `sent` and `received` are bytes of the rank's tensors, `part` bytes of the smaller of both. `ranks` is the size of
    the group, `members` its ranks as text, `comm` the communicator where the event itself has none.
    """

    operation: str | None = None
    sent: int | None = None
    received: int | None = None
    part: int | None = None
    ranks: int | None = None
    group: str | None = None
    members: str | None = None
    comm: str | None = None


def facts_of(args: dict[str, Any]) -> Facts:
    """The facts in the arguments of Kineto, NCCL Inspector, PyTorch's flight recorder, or Ascend."""
    collective, members = _text(args, "Collective name"), _text(args, "Process Group Ranks")
    width = _width(args, "dtype", "dataType", "data_type")
    group = _text(args, "Process Group Description", "comm_name")
    return Facts(
        operation=collective and operation_in(collective),
        sent=_times(args.get("In msg nelems"), width) if collective else _sent(args),
        received=_received(args) if "output_sizes" in args else _times(args.get("Out msg nelems"), width),
        part=_times(args.get("count"), width),
        ranks=next((size for key in _RANKS if (size := _whole(args.get(key)))), None),
        group=None if group in ("undefined", "unknown") else group,
        members=members,
    )


def moved(operation: str, facts: Facts, size: int | None) -> int | None:
    """The bytes that a collective moves, None if they aren't known; `size` is the event's own, of one rank."""
    if operation == "barrier":
        return None
    sent, received = facts.sent, facts.received
    if received is not None and sent is None:
        sent = size
    if sent is not None or received is not None:
        if operation == "all_gather":
            return received
        if operation in ("gather", "scatter"):
            part = sent if operation == "gather" else received
            return _times(part, facts.ranks)
        return sent or received
    part = facts.part if size is None else size
    if part is None or operation not in _OF_ALL:
        return part
    return _times(part, facts.ranks)


def _text(args: dict[str, Any], *keys: str) -> str | None:
    return next((value for key in keys if isinstance(value := args.get(key), str) and value), None)


def _whole(value: Any) -> int | None:
    return whole(value, 0, _LIMIT - 1)


def _width(args: dict[str, Any], *keys: str) -> int | None:
    name = _text(args, *keys)
    return None if name is None else _bytes(name)


def _bytes(kind: Any) -> int | None:
    return _BYTES.get(kind.lower().removeprefix("c10::")) if isinstance(kind, str) else None


def _times(count: Any, width: int | None) -> int | None:
    known = _whole(count)
    return None if known is None or width is None else _whole(known * width)


def _received(args: dict[str, Any]) -> int | None:
    """The bytes of the output tensors of the flight recorder."""
    return _tensors(args.get("output_sizes"), args.get("output_dtypes"))


def _sent(args: dict[str, Any]) -> int | None:
    """The bytes of the input tensors of an operator of torch."""
    return _tensors(args.get("Input Dims"), args.get("Input type"))


def _tensors(sizes: Any, kinds: Any) -> int | None:
    """The bytes of some tensors; None if a size or a type isn't known."""
    if not isinstance(sizes, list) or not isinstance(kinds, list) or len(sizes) != len(kinds) or not sizes:
        return None
    total = 0
    for extents, kind in zip(sizes, kinds, strict=True):
        size = _bytes(kind)
        for extent in extents if isinstance(extents, list) else (None,):
            size = _times(extent, size)
        if size is None:
            return None
        total += size
    return _whole(total)
