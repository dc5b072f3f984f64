"""Tables of statistics: a row is a summary, or one for each figure of a step.

0,MatMulV2,AI_CORE,332,17945.3,1.28,54.052,329.68,8.212       kernel MatMulV2: count, total, min, avg, max, percent
0,1,85704.02,3873.52,630.54,...                               metric Computing of step 1, metric Free of step 1, ...
"""

from __future__ import annotations

from typing import Any

from ktrace.conversion import Conversion
from ktrace.kit.ascend.tasks import task_kind
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.text.headings import STATISTICS, Columns, heading, plain, read_figures
from ktrace.kit.text.numbers import number
from ktrace.model.row_builder import RowBuilder

from .events import IDS
from .tables import API, CACHE, COMMUNICATION, OP_STATISTIC, OPERATORS, STEP_TIME, UNTIMED

_PLACE = {"device": ("device id",)}

#: Table -> its columns, and the kind of its rows.
_COLUMNS = {
    OP_STATISTIC: Columns({"name": ("op type",), "type": ("core type",), **STATISTICS, **_PLACE}, ("name", "total")),
    COMMUNICATION: Columns({"name": ("op type",), **STATISTICS, **_PLACE}, ("name", "total")),
    API: Columns(
        {"name": ("api name",), "scope": ("level",), **STATISTICS, **_PLACE, "total": ("time",)}, ("name", "total")
    ),
    OPERATORS: Columns({"name": ("name",), "total": ("host total duration",)}, ("name", "total")),
    UNTIMED: Columns(
        {"name": ("op name",), "type": ("task type",), "total": ("task duration",), **_PLACE}, ("name", "total")
    ),
}
_KINDS = {COMMUNICATION: "kernel", API: "api", OPERATORS: "op"}

#: Columns of a step that aren't durations.
_NOT_DURATIONS = frozenset({"device id", "step", "type", "index"})

#: Rates of the cache, as msprof writes them: parts of 1.
_RATES = ("Hit Rate", "Victim Rate")


def add_statistics(item: CsvRows, rows: RowBuilder, conversion: Conversion, first_id: int) -> None:
    """Adds the summaries of some rows; reports those without a name or a figure."""
    headings = item.table.headings
    cells = [item.block.take(name).to_pylist() for name in headings]  # type: ignore[union-attr]
    for line, *values in zip(item.block.numbers.to_pylist(), *cells, strict=True):
        texts = [value or "" for value in values]
        place = {"id": first_id + line * IDS, "table": item.table.ordinal}
        add = {STEP_TIME: _add_step, CACHE: _add_cache}.get(item.table.what, _add_row)
        if problem := add(item, texts, rows, place):
            conversion.report.issue("bad-record", f"{item.block.place} {line}", problem)
        else:
            conversion.report.used()


def _add_row(item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any]) -> str | None:
    what = item.table.what
    headings = [heading(name) for name in item.table.headings]
    fields = _COLUMNS[what].match(headings) or {}
    name = _cell(cells, fields, "name")
    figures = read_figures(headings, cells, fields, unit="us")
    if not name or not figures or "total" not in figures.columns:
        return "no figure" if name else "no name"
    core = _cell(cells, fields, "type")
    device = _cell(cells, fields, "device")
    scope = _cell(cells, fields, "scope")
    number_of = int(device) if device.isascii() and device.isdecimal() and len(device) < 19 else None
    once: dict[str, Any] = {"count": 1} if what == UNTIMED else {}
    args = dict(figures.args)
    if number_of is None and device:
        args["Device_id"] = device
    rows.summary(
        _KINDS.get(what) or task_kind(core),
        name,
        cat=core or None,
        device=number_of if number_of is not None or what in (API, OPERATORS) else 0,
        scope=[scope] if scope else None,
        args=args,
        **place,
        **once | figures.columns,
    )
    return None


def _cell(cells: list[str], fields: dict[str, int], field: str) -> str:
    return cells[fields[field]].strip() if field in fields else ""


def _add_step(item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any]) -> str | None:
    """Adds a metric for each part of a step. Its times are in µs, though no heading has the unit."""
    own = dict(zip((heading(name).key for name in item.table.headings), cells, strict=True))
    step, device = own.get("step", "").strip(), own.get("device id", "").strip()
    others = {name: plain(own[name.casefold()]) for name in ("Type", "Index") if own.get(name.casefold(), "").strip()}
    found = 0
    for name, cell in zip(item.table.headings, cells, strict=True):
        value = number(cell.strip())
        if heading(name).key in _NOT_DURATIONS or value is None:
            continue
        rows.summary(
            "metric",
            name,
            device=int(device) if device.isascii() and device.isdecimal() and len(device) < 19 else None,
            scope=[f"step {step}"] if step else None,
            value=float(value * 1000),
            unit="ns",
            args=others,
            **place | {"id": place["id"] + found},
        )
        found += 1
    return None if found else "no figure"


def _add_cache(item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any]) -> str | None:
    """Adds a metric of a kernel for each rate."""
    own = dict(zip(item.table.headings, cells, strict=True))
    name = own.pop("Op Name", "").strip()
    rates = {rate: value for rate in _RATES if (value := number(own.pop(rate, "").strip())) is not None}
    if not name or not rates:
        return "no figure" if name else "no name"
    args = {key: plain(cell) for key, cell in own.items() if cell.strip()}
    for index, (rate, value) in enumerate(rates.items()):
        columns = place | {"id": place["id"] + index}
        rows.summary("kernel", name, metric=rate, value=float(value), args=args, **columns)
    return None
