"""The answer as tables: by operation, by operator and shape, by device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrace.analysis.roofline.model import Rate
from ktrace.tables.figures import percent
from ktrace.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from ktrace.analysis.roofline.answer import RooflineAnswer

#: The key of work whose cost isn't known.
NOT_KNOWN = "cost not known"

#: The key of work whose call isn't in the trace.
UNLAUNCHED = "launch not known"

_RATES = (Column("TFLOP/s"), Column("GB/s"), Column("bound"), Column("reached", "%"))
_MORE = (
    *(Column("FLOP"), Column("moved", "B"), Column("FLOP/B")),
    *(Column("of compute", "%"), Column("of memory", "%"), Column("kernels", "count")),
)


def tables(answer: RooflineAnswer, top: int | None = None, *, brief: bool = False) -> list[Table]:
    """The tables `roofline`, `roofline by operator` and `roofline of devices`."""
    return [_operations(answer, brief), _operators(answer, top, brief), _devices(answer, brief)]


def _operations(answer: RooflineAnswer, brief: bool) -> Table:
    columns = (Column("operation"), Column("time", "ns"), Column("share", "%"), Column("calls", "count"), *_RATES)
    rows = [(one.key, *_shared(one, answer), *_figures(one, brief)) for one in answer.operations]
    unlaunched = sum(device.unlaunched for device in answer.work)
    rest = answer.time - sum(one.time for one in answer.operations) - unlaunched
    for key, time in ((NOT_KNOWN, rest), (UNLAUNCHED, unlaunched)):
        if time > 0:
            rows.append((key, time, percent(time, answer.time), None, *_NONE[: len(_RATES) if brief else None]))
    title = "how near to the machine: by operation"
    return Table("roofline", title, (*columns, *(() if brief else _MORE)), rows, _notes(answer))


def _operators(answer: RooflineAnswer, top: int | None, brief: bool) -> Table:
    several = len(answer.work) > 1
    columns = [Column("operator"), Column("time", "ns")]
    columns += [] if brief else [Column("share", "%")]
    columns += [Column("calls", "count"), *_RATES]
    columns += [] if brief else _MORE
    columns += [Column("device")] if several else []
    columns += [Column("type"), Column("shapes")]
    rows: list[tuple[Cell, ...]] = []
    for one in answer.operators[:top]:
        item = one.item
        if item is None:
            continue
        row: list[Cell] = [item.name, one.time]
        row += [] if brief else [percent(one.time, answer.time)]
        row += [one.calls, *_figures(one, brief)]
        row += [answer.work[item.device].label] if several else []
        row += [item.precision, item.shapes]
        rows.append(tuple(row))
    more = len(answer.operators) - len(rows)
    title = "how near to the machine: by operator and shape"
    return Table("roofline by operator", title, tuple(columns), rows, more=more)


def _devices(answer: RooflineAnswer, brief: bool) -> Table:
    columns = [Column("device"), Column("FLOPs known", "%"), Column("bytes known", "%"), Column("TFLOP/s")]
    columns += [Column("utilisation", "%"), Column("name")]
    columns += [] if brief else [Column("span", "ns"), Column("FLOP"), Column("peaks"), Column("source of peaks")]
    rows: list[tuple[Cell, ...]] = []
    for one in answer.devices:
        row: list[Cell] = [one.device.label, one.flops_known, one.bytes_known, one.tflops, one.utilisation]
        row += [one.device.name]
        peak = one.peak
        row += [] if brief else [one.device.span, one.flops or None]
        row += [] if brief else [peak.about, peak.source] if peak else [None, None]
        rows.append(tuple(row))
    return Table("roofline of devices", "how near to the machine: by device", tuple(columns), rows)


#: The empty cells of `_figures`.
_NONE: tuple[Cell, ...] = (None,) * (len(_RATES) + len(_MORE))


def _shared(one: Rate, answer: RooflineAnswer) -> tuple[Cell, ...]:
    return one.time, percent(one.time, answer.time), one.calls


def _figures(one: Rate, brief: bool) -> tuple[Cell, ...]:
    rates: tuple[Cell, ...] = one.tflops, one.gb_per_s, one.bound, one.reached
    if brief:
        return rates
    moved = one.bytes if one.bytes_time else None
    return *rates, one.flops or None, moved, one.intensity, one.of_compute, one.of_memory, one.kernels


def _notes(answer: RooflineAnswer) -> list[str]:
    """Where the figures come from, and what they lack."""
    notes = list(answer.notes)
    used = [number for number in range(len(answer.work)) if any(item.device == number for item in answer.items)]
    missing = sorted(
        {answer.work[number].name or "a device without a name" for number in used if answer.peak_of[number] is None}
    )
    if missing:
        notes.append(f"No peak rates are known for {', '.join(missing)}; --peaks FILE adds them.")
    return notes
