"""A layer with its counters as a row of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.kit.text.headings import cell_quantity
from ktrace.model.row_builder import RowBuilder

#: Status of a layer that was measured; others are NOT_RUN and OPTIMIZED_OUT.
EXECUTED = "EXECUTED"

STATUSES = frozenset({EXECUTED, "NOT_RUN", "OPTIMIZED_OUT", "INVALID_STATUS"})


@dataclass
class Layer:
    """A layer as the source states it; times are ns."""

    name: str
    status: str
    type: str
    exec_type: str
    real: float
    args: dict[str, Any] = field(default_factory=dict)
    percent: float | None = None


class Layers:
    """Adds layers. `on_gpu` is True once the source names a GPU as the device of the run."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self.on_gpu = False

    def add(self, layer: Layer, *, table: int, scope: list[str] | None = None) -> None:
        """Adds an executed layer with its time: `kernel` on a GPU, else `op`. One that didn't run is a note.

        The GPU plug-in names the type of the output after the kernel: `convolution_gpu_bfyx_f16__f16`.
        """
        args = ({"execType": layer.exec_type} if layer.exec_type else {}) | layer.args
        place: dict[str, Any] = {"table": table, "scope": scope, "cat": layer.type or None}
        if layer.status != EXECUTED:
            args = {"execStatus": layer.status} | args
            self._rows.summary("note", layer.name, metric="layer", args=args, **place)
            return
        kind = "kernel" if self.on_gpu or "__" in layer.exec_type or "_gpu_" in layer.exec_type else "op"
        figures: dict[str, Any] = {"unit": "ns", "total": layer.real, "percent": layer.percent}
        self._rows.summary(kind, layer.name, args=args, **figures, **place)

    def total(self, name: str, time: float, *, table: int, scope: list[str] | None = None, **more: Any) -> None:
        """Adds the total that the source states after the layers."""
        self._rows.summary("total", name, unit="ns", total=time, table=table, scope=scope, **more)


def status_of(text: str) -> str:
    """Returns the status without the name of Python's enumeration: EXECUTED for Status.EXECUTED."""
    return text.strip().removeprefix("Status.").removeprefix("ProfilingInfo.Status.")


def ns(cell: Any, unit: int = 10**6) -> float | None:
    """Returns a time in ns; None for anything but a finite number. `unit` is the length of its unit in ns."""
    if isinstance(cell, bool) or not isinstance(cell, (int, Decimal, str)):
        return None
    found = cell_quantity(str(cell))
    return float(found.number * unit) if found and not found.unit and found.number.is_finite() else None


def percent_of(cell: Any) -> float | None:
    """Returns a share as a number: `53.33%`; None for N/A and other text."""
    found = cell_quantity(str(cell))
    return float(found.number) if found and found.unit in ("", "%") and found.number.is_finite() else None


def number(cell: str) -> Any:
    """A printed time as a value for `args`."""
    found = cell_quantity(cell)
    return float(found.number) if found and not found.unit and found.number.is_finite() else cell.strip()
