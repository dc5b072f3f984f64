"""A collective of a dump, with its fields checked."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple

#: Bytes of an element, by the names of c10::ScalarType.
_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "Bits8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16", "Bits16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}

#: Greatest time, size or number that is used.
_LIMIT = 1 << 62

_COLUMNS = frozenset(
    {"profiling_name", "time_created_ns", "process_group", "frames", "time_discovered_completed_ns"}
)  # fmt: skip


class Collective(NamedTuple):
    """A collective: `end` is when its completion was noticed, `duration` its time on the device in ns if measured."""

    name: str
    start: int
    end: int | None
    duration: int | None
    is_retired: bool
    group: str | None
    description: str
    number: int | None
    bytes: int | None
    frames: Any
    args: dict[str, Any]


def collective(entry: dict[str, Any]) -> Collective | None:
    """The collective of an entry, None without a name or a time."""
    name, start = entry.get("profiling_name"), whole(entry.get("time_created_ns"))
    if type(name) is not str or not name or start is None or start <= 0:
        return None
    end = whole(entry.get("time_discovered_completed_ns"))
    group, description = _group(entry)
    number = whole(entry.get("collective_seq_id", entry.get("seq_id")))
    return Collective(
        name,
        start,
        end or None,  # JSON has 0 for a time that isn't known
        _nanoseconds(entry.get("duration_ms")),
        entry.get("retired") is True,
        group,
        description,
        None if entry.get("is_p2p") is True else number,
        _bytes(entry.get("input_sizes"), entry.get("input_dtypes")),
        entry.get("frames"),
        {key: value for key, value in entry.items() if _is_argument(key, value)},
    )


def _is_argument(key: Any, value: Any) -> bool:
    is_unknown = value is None or (key == "time_discovered_started_ns" and value == 0)
    return type(key) is str and key not in _COLUMNS and not is_unknown


def whole(value: Any) -> int | None:
    """A whole number that can be used, None for another value."""
    return value if type(value) is int and -_LIMIT < value < _LIMIT else None


def _group(entry: dict[str, Any]) -> tuple[str | None, str]:
    """The name and the description of the process group; of version 1 the number as name."""
    found: Any = entry.get("process_group")
    if type(found) in (tuple, list) and len(found) == 2 and all(type(one) is str for one in found):
        return found[0], "" if found[1] == "undefined" else found[1]
    number = whole(entry.get("pg_id"))
    return (None if number is None else str(number)), ""


def _nanoseconds(value: Any) -> int | None:
    if type(value) not in (int, float) or not 0 <= value < 1e12:
        return None
    return int((Decimal(value) * 1_000_000).quantize(Decimal(1), ROUND_HALF_EVEN))


def _bytes(sizes: Any, types: Any) -> int | None:
    """The bytes of the input tensors, None if a size or a type isn't known."""
    if type(sizes) not in (list, tuple) or type(types) not in (list, tuple) or len(sizes) != len(types) or not sizes:
        return None
    total = 0
    for size, kind in zip(sizes, types, strict=True):
        width = _BYTES.get(kind) if type(kind) is str else None
        if width is None or type(size) not in (list, tuple) or len(size) > 64:
            return None
        for extent in size:
            if whole(extent) is None or extent < 0:
                return None
            width *= extent
            if width >= _LIMIT:
                return None
        total += width
    return total if total < _LIMIT else None
