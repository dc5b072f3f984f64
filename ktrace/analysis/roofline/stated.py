"""Items from work whose FLOPs and bytes the source states."""

from __future__ import annotations

import re
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from ktrace.analysis.roofline.measured import Measured
from ktrace.analysis.roofline.model import Item
from ktrace.analysis.work.keys import OTHER
from ktrace.model.arrays import Float64, Int64
from ktrace.store.joins import positions

if TYPE_CHECKING:
    from ktrace.analysis.work.events import Events, Shape, Work

#: The types of elements as XLA and the classifier write them.
_TYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "s8": "int8", "u8": "int8", "i8": "int8"}
_XLA = re.compile(r"= \(?(bf16|f64|f32|f16|f8|s8|u8)[a-z0-9]{0,12}\[")


def stated_items(measured: Measured, work: Work, events: Events, on: Any) -> tuple[list[Item], Int64]:
    """The items of a source, and the work in them; `on` is the device of each piece of work."""
    id_, flops, moved = measured.of(events.source)
    if not len(id_):
        return _counted(measured, work, events, on)
    order = np.argsort(id_, kind="stable")
    place = positions(events.ids, id_[order])
    rows = np.flatnonzero(place >= 0)
    own = order[place[rows]]
    return _items(work, events, on, rows, flops[own], moved[own]), rows


def _items(work: Work, events: Events, on: Any, rows: Int64, flops: Float64, moved: Float64) -> list[Item]:
    """Items of work with the same shape, on the same device, of which the same is known."""
    if not len(rows):
        return []
    known = np.stack([events.shape[rows], on[rows], ~np.isnan(flops), ~np.isnan(moved)]).astype(np.int64)
    groups, group = np.unique(known, axis=1, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    time = np.zeros(len(count), np.int64)
    np.add.at(time, group, events.dur[rows])
    sums = [np.bincount(group, weights=np.nan_to_num(one), minlength=len(count)) for one in (flops, moved)]
    found = []
    for number, (shape, device, has_flops, has_bytes) in enumerate(groups.T.tolist()):
        amount, size = float(sums[0][number]), float(sums[1][number])
        found.append(
            item_of(
                work.shapes[shape],
                device,
                int(count[number]),
                int(time[number]),
                amount if has_flops else None,
                size if has_bytes else None,
            )
        )
    return found


def _counted(measured: Measured, work: Work, events: Events, on: Any) -> tuple[list[Item], Int64]:
    """Items of work with counters."""
    rows = np.flatnonzero(positions(events.ids, measured.ids(events.source)) >= 0)
    found = []
    for row in rows.tolist():
        shape, time = work.shapes[events.shape[row]], int(events.dur[row])
        one = measured.counted(events.source, int(events.ids[row]), time, shape["operation"])
        if one is not None:
            found.append(item_of(shape, int(on[row]), 1, time, one.flops, one.bytes, one.precision))
    return merged(found), rows


def item_of(
    shape: Shape,
    device: int,
    calls: int,
    time: int,
    flops: float | None,
    moved: float | None,
    precision: str | None = None,
) -> Item:
    """An item of kernels with this shape."""
    name = shape.get("short_name") or shape["name"]
    operation = shape.get("operation") or OTHER
    return Item(operation, name, "", precision or _precision(shape), device, calls, calls, time, flops, moved)


def merged(items: list[Item]) -> list[Item]:
    """Items with the same name and type as one, unless other figures of them are known."""
    groups: dict[Any, list[Item]] = {}
    for one in items:
        key = one.operation, one.name, one.precision, one.device, one.flops is None, one.bytes is None
        groups.setdefault(key, []).append(one)
    return [_sum(same) for same in groups.values()]


def _sum(same: list[Item]) -> Item:
    first = same[0]
    return replace(
        first,
        calls=sum(one.calls for one in same),
        kernels=sum(one.kernels for one in same),
        time=sum(one.time for one in same),
        flops=None if first.flops is None else fsum(one.flops or 0 for one in same),
        bytes=None if first.bytes is None else fsum(one.bytes or 0 for one in same),
    )


def _precision(shape: Shape) -> str:
    """The type of the elements: that of the classifier, else the type of the result in the text of XLA."""
    known = shape.get("precision")
    if not known and (match := _XLA.search(shape["name"])):
        known = "fp8" if match[1] == "f8" else match[1]
    return _TYPES.get(known or "", known or "")
