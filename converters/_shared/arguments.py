"""What a timeline shows as the arguments of a slice: the columns of the model, and the source's own `args`."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.jsontext import decoded
from ktrace.model import POINT_KINDS, Batch

#: The columns that are arguments under their own name, in the order in which they are shown.
PLAIN = (
    *("device", "context", "stream", "parent", "clock", "correlation", "external_id"),
    *("short_name", "operation", "library", "precision", "layer"),
    *("registers", "shared_memory", "shared_dynamic", "occupancy", "bytes", "copy_kind", "comm", "comm_seq"),
)

#: Names of arguments that are columns, or made of columns. A key of the source's `args` that is one of them
#: is shown as `args.<key>`.
RESERVED = frozenset({"id", "kind", "timing", "unfinished", "grid", "block", *PLAIN})

_POINTS = pa.array(POINT_KINDS)


def argument_columns(batch: Batch) -> dict[str, list[Any]]:
    """The arguments of the events that are columns: name -> a value a row, None where the row has none.

    `id` is never None: by it a slice is found in the canonical tables. `kind` is left out where it is the
    category, `timing` where it is `measured`; `unfinished` is True for a slice without an end; `grid` and
    `block` are {x, y, z}, or one number where only the product is known.
    """
    rows = len(batch)
    kind = plain(batch, "kind")
    columns = {"id": values(batch, "id")}
    if batch.has("cat"):
        columns["kind"] = _where(plain(batch, "cat").is_valid(), kind)
    timing = plain(batch, "timing")
    columns["timing"] = _where(pc.not_equal(timing, "measured"), timing)
    point = pc.is_in(kind, _POINTS)
    unfinished = pc.and_(batch.column("dur").is_null(), pc.invert(point))
    columns["unfinished"] = _where(unfinished, pa.repeat(True, rows))
    for name in ("grid", "block"):
        if batch.has(f"{name}_x"):
            columns[name] = _dimensions(*(values(batch, f"{name}_{axis}") for axis in "xyz"))
    for name in PLAIN:
        if batch.has(name):
            columns[name] = values(batch, name)
    not_counter = pc.not_equal(kind, "counter")
    for name in ("value", "unit"):
        if batch.has(name):
            columns[name] = _where(not_counter, plain(batch, name))
    for name in batch.columns.schema.names:
        if name.startswith("x_"):
            columns[name] = values(batch, name)
    for name in batch.typed_args():
        columns[argument_name(name.removeprefix("args."), columns)] = values(batch, name)
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def argument_name(key: str, columns: Container[str]) -> str:
    """The name under which a key of the source's `args` is shown beside those columns.

    A reader of what is written so takes one `args.` off.
    """
    return f"args.{key}" if key in RESERVED or key in columns or key.startswith("args.") else key


def categories(batch: Batch) -> list[str]:
    """The category of each row: the source's own, else the kind."""
    kind = plain(batch, "kind")
    chosen: list[str] = (pc.coalesce(plain(batch, "cat"), kind) if batch.has("cat") else kind).to_pylist()
    return chosen


def plain(batch: Batch, name: str) -> pa.Array:
    """A column, decoded where it is a dictionary."""
    return decoded(batch.column(name))


def values(batch: Batch, name: str) -> list[Any]:
    """The values of a column."""
    column: list[Any] = plain(batch, name).to_pylist()
    return column


def _where(mask: pa.Array, column: pa.Array) -> list[Any]:
    """The values where the mask is true, else None."""
    chosen: list[Any] = pc.if_else(mask, column, pa.scalar(None, column.type)).to_pylist()
    return chosen


def _dimensions(xs: list[Any], ys: list[Any], zs: list[Any]) -> list[Any]:
    return [x if y is None and z is None else {"x": x, "y": y, "z": z} for x, y, z in zip(xs, ys, zs, strict=True)]
