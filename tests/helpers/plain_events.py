"""`Events` made the plain way, by json and a loop: what the tests of the phases take, and compare the decoder with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.kit.trace_json.events import MEMBERS, Events

#: Ids between an event and the next.
STEP = 64

_TEXT = pa.dictionary(pa.int32(), pa.string())
_JSON = pa.dictionary(pa.int32(), pa.binary())


def load(path: Path) -> Any:
    """The document, its decimals exact; raw control bytes are let through, a missing end is added."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8", "replace")
    for end in ("", "]", "]}"):
        try:
            return json.loads(text.rstrip().rstrip(",") + end if end else text, parse_float=Decimal, strict=False)
        except ValueError:
            continue
    raise ValueError(f"{path} isn't JSON")


def events_of(document: Any) -> list[dict[str, Any]]:
    """The events of a document in either container."""
    found = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in found if event]


def nanoseconds(value: Any) -> int | None:
    """Microseconds as whole ns, half to even."""
    if isinstance(value, str):
        value = Decimal(value)
    if value is None or isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return int((Decimal(value) * 1000).to_integral_value(ROUND_HALF_EVEN))


def plain_events(found: list[dict[str, Any]], size: int = 1000) -> Iterator[Events]:
    """The events as columns, so many at a time."""
    for start in range(0, len(found), size):
        yield _columns(found[start : start + size], start)


def _columns(found: list[dict[str, Any]], start: int) -> Events:
    cells: dict[str, list[Any]] = {}
    for number, event in enumerate(found):
        args = event.get("args")
        flat = {name: event[name] for name in MEMBERS if name in event}
        if isinstance(args, dict):
            flat |= {f"args.{key}": value for key, value in args.items()}
        elif args is not None:
            flat["args.$args"] = args
        flat |= {f"args.${key}": value for key, value in event.items() if key not in (*MEMBERS, "args")}
        for name in ("ts", "dur"):
            if name in flat:
                time = nanoseconds(flat[name])
                flat[name] = time if time is None or abs(time) < 2**63 else None
        for name, value in flat.items():
            if name not in cells:
                cells[name] = [None] * len(found)
            cells[name][number] = (value,)
    return Events(
        STEP * np.arange(start, start + len(found)), {name: _column(name, values) for name, values in cells.items()}
    )


def _column(name: str, cells: list[Any]) -> pa.Array:
    """One column; a cell is None where the event hasn't the key, else a tuple of the value."""
    member = not name.startswith("args.")
    given = [cell[0] for cell in cells if cell is not None and not (member and cell[0] is None)]
    values = [None if cell is None else cell[0] for cell in cells]
    kinds = {type(value) for value in given}
    if name in ("ts", "dur"):
        return pa.array(values, pa.int64())
    small = all(-(2**63) <= value < 2**63 for value in given if type(value) is int)
    if kinds == {int} and small:
        return pa.array(values, pa.int64())
    if kinds == {Decimal} and not member:
        return pa.array([None if value is None else float(value) for value in values])
    if kinds == {bool} and not member:
        return pa.array(values, pa.bool_())
    if kinds == {str} or name in ("ph", "cat", "name", "bp", "s"):
        return pa.array([value if value is None or isinstance(value, str) else _json(value) for value in values]).cast(
            _TEXT
        )
    texts = [None if cell is None or (member and cell[0] is None) else _json(cell[0]).encode() for cell in cells]
    return pa.array(texts, pa.binary()).dictionary_encode().cast(_JSON)


def _json(value: Any) -> str:
    return json.dumps(value, default=float)
