"""Turns rows of summaries, metrics and events into summaries, from CSV and from printed tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ktrace.kit.columnar.text_cells import BINARY_BYTES
from ktrace.kit.text.headings import Heading, as_int64, cell_quantity, heading, plain, read_figures
from ktrace.kit.text.numbers import Quantity, is_missing, nanoseconds
from ktrace.model.row_builder import RowBuilder

from .printed import Sampled
from .tables import FIGURES, device, named
from .traces import IDS

_LEVEL = re.compile(r"[A-Za-z]\w* \((-?\d+)\)")
_STATISTICS = ("min", "max", "avg", "total")


class Figures:
    """Makes summaries from rows, which are heading -> cell. `devices` collects the names of devices.

    `factors` are unit of size -> bytes. `device` is the device in the line above a table's headings, for summaries per
    GPU and unified memory. A method returns why a row isn't valid, or None.
    """

    def __init__(self, rows: RowBuilder, devices: dict[int, str], factors: Mapping[str, int] = BINARY_BYTES) -> None:
        self._rows = rows
        self._factors = factors
        self._devices = devices
        self._heads: dict[tuple[object, ...], int] = {}
        self._scope = ""
        self._callers: list[tuple[int, int]] = []
        self.ranges: dict[str, str] = {}
        self.pid: int | None = None
        self.device = ""

    def summary(self, line: int, table: int, headings: Sequence[Heading], cells: Sequence[str]) -> str | None:
        """Adds a row of a summary."""
        fields = FIGURES.match(headings) or {}
        name = cells[fields["name"]].strip() if "name" in fields else ""
        figures = read_figures(headings, cells, fields)
        scope = (cells[fields["type"]].strip().rstrip(":") if "type" in fields else "") or self._scope
        self._scope = scope
        if not name or not figures:
            return "no figure" if name else "no name"
        about = named(name, on_device="API" not in scope and not scope.startswith("Open"))
        kind = "range" if scope == "Range" else about.kind
        place = (cells[fields["device"]] if "device" in fields else "") or self.device
        self._rows.summary(
            kind,
            about.name,
            id=line * IDS,
            table=table,
            scope=[*self.ranges.values(), *([scope] if scope else [])] or None,
            pid=self.pid,
            device=None if kind == "api" else self._device(place),
            copy_kind=about.copy_kind,
            args=figures.args,
            **figures.columns,
        )
        return None

    def begin(self, scope: str) -> None:
        """Begins a table. `scope` is its subject, for rows that don't name one; earlier heads end."""
        self._scope = scope
        self._heads.clear()
        self._callers.clear()

    def within(self, what: str, name: str) -> None:
        """Sets the NVTX Thread, Domain or Range of the work in the tables below."""
        order = ("Thread", "Domain", "Range")
        self.ranges = {key: self.ranges[key] for key in order[: order.index(what)] if key in self.ranges}
        self.ranges[what] = f"{what} {name}"

    def path(self, line: int, table: int, percent: str, time: str, waiting: str, name: str) -> str | None:
        """Adds the time of a name on the critical path, and its waiting time."""
        times = _ns(time, ""), _ns(waiting, "")
        if times[0] is None:
            return "no time"
        about = named(name, on_device=True)
        kind = "range" if name == "<Other>" else about.kind
        columns: dict[str, Any] = {"unit": "ns", "table": table, "pid": self.pid, "copy_kind": about.copy_kind}
        columns |= {"scope": [self._scope] if self._scope else None}
        head = self._rows.summary(
            kind,
            about.name,
            metric="critical path",
            id=line * IDS,
            total=times[0],
            percent=float(percent.rstrip("%")),
            **columns,
        )
        if times[1] is not None:
            self._rows.summary(
                kind, about.name, metric="waiting time", id=line * IDS + 1, parent=head, total=times[1], **columns
            )
        return None

    def sampled(self, line: int, table: int, row: Sampled) -> str | None:
        """Adds a function of the CPU profile as a child of the one above it in the tree."""
        time = None if row.time is None else _ns(row.time, "")
        while self._callers and self._callers[-1][0] >= row.depth:
            self._callers.pop()
        head = self._rows.summary(
            "sample",
            row.name,
            id=line * IDS,
            parent=self._callers[-1][1] if self._callers else None,
            table=table,
            scope=[self._scope] if self._scope else None,
            pid=self.pid,
            percent=float(row.percent),
            total=time,
            unit=None if time is None else "ns",
        )
        self._callers.append((row.depth, head))
        return None

    def metric(self, line: int, table: int, row: Mapping[str, str]) -> str | None:
        """Adds a metric or event of a kernel as a child of the kernel's head.

        `row` has lower-case headings: device, kernel, invocations, metric name or event name, min, max, avg, ...
        """
        name, metric = row.get("kernel", ""), row.get("metric name") or row.get("event name", "")
        if not name or not metric:
            return "no metric" if name else "no kernel"
        number = self._device(row.get("device", ""))
        count = _count(row.get("invocations", ""))
        columns, args = self._statistics(row)
        if not columns and not args:
            return "no figure"
        columns |= {"device": number, "pid": self.pid, "table": table}
        key = (table, number, name, count)
        if key not in self._heads:
            self._heads[key] = self._rows.summary("kernel", name, id=line * IDS, count=count, **_place(columns))
        if row.get("metric description"):
            args["Metric Description"] = row["metric description"]
        self._rows.summary(
            "metric", name, metric=metric, id=line * IDS + 1, parent=self._heads[key], args=args, **columns
        )
        return None

    def launch(self, line: int, table: int, row: Mapping[str, str], metrics: Mapping[str, str]) -> str | None:
        """Adds a launch with its metrics, one cell each; `metrics` is heading -> unit."""
        name = row.get("kernel", "")
        if not name:
            return "no kernel"
        place: dict[str, Any] = {"device": self._device(row.get("device", "")), "pid": self.pid, "table": table}
        place |= {field: _count(row.get(field, "")) for field in ("context", "stream")}
        about = named(name, on_device=True)
        args = {}
        number = _count(row.get("correlation_id", ""))
        if number is not None:
            args["Correlation_ID"] = number
        elif about.correlation is not None:
            args["Correlation_ID"] = about.correlation
        first = line * IDS
        head = self._rows.summary("kernel", about.name, id=first, count=1, args=args, **place)
        for offset, (metric, unit) in enumerate(metrics.items(), 1):
            if is_missing(row[metric]):
                continue
            columns, args = self._statistics({"value": row[metric]}, unit)
            named_ = heading(metric).name if unit else metric
            self._rows.summary(
                "metric", about.name, metric=named_, id=first + offset, parent=head, args=args, **columns, **place
            )
        return None

    def memory(self, line: int, table: int, headings: Sequence[Heading], cells: Sequence[str]) -> str | None:
        """Adds sizes and times of copies of unified memory."""
        row = {head.key: (cell, head.unit) for head, cell in zip(headings, cells, strict=False)}
        name, count = row.get("name", ("", ""))[0].strip(), _count(row.get("count", ("", ""))[0])
        if not name or count is None:
            return "no count" if name else "no name"
        sizes = {
            key: _bytes(*row[f"{key} size"], self._factors)
            for key in ("avg", "min", "max", "total")
            if f"{key} size" in row
        }
        time = _ns(*row.get("total time", ("", "")))
        about: dict[str, Any] = {"table": table, "scope": ["Unified Memory"], "pid": self.pid}
        about["device"] = self._device(row.get("device", ("", ""))[0])
        kind = "memcpy" if "to" in name.casefold().split() else "range"
        head = self._rows.summary(
            kind, name, id=line * IDS, count=count, total=time, unit=None if time is None else "ns", **about
        )
        if any(size is not None for size in sizes.values()):
            self._rows.summary(
                kind, name, metric="bytes", unit="B", id=line * IDS + 1, parent=head, count=count, **sizes, **about
            )
        return None

    def _statistics(self, row: Mapping[str, str], unit: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """The figures of a metric in one unit, and arguments for text: `High (9)` is 9, `98.865132%` a share.

        A cell has its own unit, else `unit`; sizes and rates are converted to B and B/s, and the printed text is kept.
        """
        columns: dict[str, Any] = {}
        args: dict[str, Any] = {}
        for field in (*_STATISTICS, "value"):
            cell = row.get(field, "").strip()
            if is_missing(cell):
                if cell.strip("-"):
                    args[field.capitalize()] = cell
                continue
            level = _LEVEL.fullmatch(cell)
            figure = cell_quantity(level[1] if level else cell)
            key = field.capitalize() if field != "value" else "$value"
            if not figure or not figure.number.is_finite():
                args[key] = plain(cell)
                continue
            figure_in_base = _in_base(figure.number, figure.unit or unit, self._factors)
            if (
                columns
                and (columns.get("unit") or "") != figure_in_base.unit
                and (figure_in_base.unit or figure_in_base.number)
            ):
                args[key] = cell
                continue
            columns[field] = float(figure_in_base.number)
            if figure_in_base.unit:
                columns["unit"] = figure_in_base.unit
            if level or figure_in_base.number != figure.number:
                args[key] = cell
        return columns, args

    def _device(self, text: str) -> int | None:
        number, name = device(text.strip())
        if number is not None and name:
            self._devices[number] = name
        return number


def _place(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {field: columns[field] for field in ("device", "pid", "table")}


def _in_base(number: Decimal, unit: str, factors: Mapping[str, int]) -> Quantity:
    """Converts a size to B and a rate to B/s; other figures are unchanged."""
    size, per = unit.removesuffix("/s"), "/s" if unit.endswith("/s") else ""
    factor = factors.get(size) if size else None
    return Quantity(number, unit) if factor is None else Quantity(number * factor, f"B{per}")


def _count(text: str) -> int | None:
    figure = cell_quantity(text) if not is_missing(text) else None
    return as_int64(figure.number) if figure and not figure.unit else None


def _bytes(text: str, unit: str, factors: Mapping[str, int]) -> float | None:
    figure = cell_quantity(text) if not is_missing(text) else None
    factor = factors.get(figure.unit or unit) if figure else None
    return float(figure.number * Decimal(factor)) if figure and factor else None


def _ns(text: str, unit: str) -> float | None:
    figure = cell_quantity(text) if not is_missing(text) else None
    ns = nanoseconds(figure.number, figure.unit or unit) if figure else None
    return None if ns is None else float(ns)


def with_unit(text: str, unit: str) -> Heading:
    """A heading with the unit below it."""
    head = heading(text)
    return Heading(text, head.name, unit) if unit and not head.unit else head
