"""Reads Ascend's CSV files: rows with times as events, statistics as summaries; a folder of them is one trace.

Of memory over time, each figure of a row is a counter:

Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type      PTA Total Allocated, PTA Total Reserved
Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)                        Device ddr, Device hbm, Device memory

Of statistics, a row is a summary, or one for each figure of a step:

0,MatMulV2,AI_CORE,332,17945.3,1.28,54.052,329.68,8.212       kernel MatMulV2: count, total, min, avg, max, percent
0,1,85704.02,3873.52,630.54,...                               metric Computing of step 1, metric Free of step 1, ...
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source
from ktrace.kit.ascend_folder import CSV, own_files
from ktrace.kit.ascend_tasks import DEVICE, task_kind
from ktrace.kit.columnar.blocks import Batches, timed
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Number, Time, Whole, Word, typed
from ktrace.kit.text.headings import STATISTICS, Columns, heading, plain, read_figures
from ktrace.kit.text.numbers import number
from ktrace.model.batch import Batch
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder

from . import (
    API,
    CACHE,
    COMMUNICATION,
    MEMORY,
    NPU_MEMORY,
    OP_STATISTIC,
    OPERATORS,
    STEP_TIME,
    UNTIMED,
    table_kind,
)
from .events import EVENTS, IDS, EventRows, Listed, device_of

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

#: Cells without a figure.
_NONE = ("", "N/A")


def add_statistics(item: CsvRows, rows: RowBuilder, conversion: Conversion, first_id: int) -> None:
    """Adds the summaries of some rows; reports those without a name or a figure, and figures that aren't numbers."""
    headings = item.table.headings
    cells = [item.block.take(name).to_pylist() for name in headings]  # type: ignore[union-attr]
    for line, *values in zip(item.block.numbers.to_pylist(), *cells, strict=True):
        texts = [value or "" for value in values]
        place = {"id": first_id + line * IDS, "table": item.table.ordinal}
        add = {STEP_TIME: _add_step, CACHE: _add_cache}.get(item.table.what, _add_row)
        where, odd = f"{item.block.place} {line}", dict[str, str]()
        if problem := add(item, texts, rows, place, odd):
            conversion.report.issue("bad-record", where, problem)
            continue
        conversion.report.used()
        for name, cell in odd.items():
            conversion.report.issue("misfit", where, f"{name}: {cell[:40]}")


def _add_row(
    item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any], _odd: dict[str, str]
) -> str | None:
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


def _add_step(
    item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any], odd: dict[str, str]
) -> str | None:
    """Adds a metric for each part of a step. Its times are in µs, though no heading has the unit."""
    own = dict(zip((heading(name).key for name in item.table.headings), cells, strict=True))
    step, device = own.get("step", "").strip(), own.get("device id", "").strip()
    others = {name: plain(own[name.casefold()]) for name in ("Type", "Index") if own.get(name.casefold(), "").strip()}
    times = {
        name: (cell.strip(), number(cell.strip()))
        for name, cell in zip(item.table.headings, cells, strict=True)
        if heading(name).key not in _NOT_DURATIONS and cell.strip()
    }
    odd |= {name: cell for name, (cell, value) in times.items() if value is None and cell not in _NONE}
    found = 0
    for name, (_, value) in times.items():
        if value is None:
            continue
        rows.summary(
            "metric",
            name,
            device=int(device) if device.isascii() and device.isdecimal() and len(device) < 19 else None,
            scope=[f"step {step}"] if step else None,
            value=float(value * 1000),
            unit="ns",
            args=others | odd,
            **place | {"id": place["id"] + found},
        )
        found += 1
    return None if found else "no figure"


def _add_cache(
    item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any], odd: dict[str, str]
) -> str | None:
    """Adds a metric of a kernel for each rate."""
    own = dict(zip(item.table.headings, cells, strict=True))
    name = own.pop("Op Name", "").strip()
    rates = {rate: value for rate in _RATES if (value := number(own.get(rate, "").strip())) is not None}
    odd |= {rate: own[rate] for rate in _RATES if own.get(rate, "").strip() not in _NONE and rate not in rates}
    if not name or not rates:
        return "no figure" if name else "no name"
    args = {key: plain(cell) for key, cell in own.items() if cell.strip() and key not in rates}
    for index, (rate, value) in enumerate(rates.items()):
        columns = place | {"id": place["id"] + index}
        rows.summary("kernel", name, metric=rate, value=float(value), args=args, **columns)
    return None


COUNTERS = frozenset({MEMORY, NPU_MEMORY})

#: Heading -> the factor of its unit, which is written as if it were 1000: msprof and torch_npu divide by 1024.
_FACTORS = {"KB": 1024.0, "MB": 1024.0**2}
_FIGURES = ("Total Allocated", "Total Reserved", "Total Active", "ddr", "hbm", "memory", "allocated", "active")

_FIELDS: dict[str, Field] = {
    "ts": Time("Timestamp"),
    "of": Word("Component", "event"),
    "device": Whole("Device_id"),
    "type": Word("Device Type", "Device"),
}


def counters(item: CsvRows, conversion: Conversion, first_id: int) -> Iterator[Batch]:
    """Yields the counters of some rows. The first one of a row has the cells that are no figures."""
    table = {name: name for name in item.table.headings}
    figures = {
        f"figure {name}": (own, unit)
        for name in _FIGURES
        for own in table
        for unit in ("KB", "MB", "")
        if own.casefold() == (f"{name}({unit})" if unit else name).casefold()
    }
    fields = _FIELDS | {key: Number(own.partition("(")[0]) for key, (own, _) in figures.items()}
    block = timed(typed(item, fields, conversion.report, {"ts": "us"}), conversion, "<ts>")
    if not len(block):
        return
    device = device_of(block)
    ts: pa.Array = block.take("<ts>")
    component, kind = block.take("<of>"), block.take("<type>")
    ids = first_id + block.numbers.to_numpy() * IDS
    values = {key: column for key in figures if (column := block.take(f"<{key}>")) is not None}
    known = np.stack([present(column) for column in values.values()], 1)
    for own in (figures[key][0] for key in values):
        if (odd := block.get(own)) is not None and odd.null_count < len(odd):  # what isn't a number is left there
            first = pc.index(odd.is_valid(), True).as_py()
            conversion.report.issue("misfit", block.where(first), f"{own}: {odd[first]}", len(odd) - odd.null_count)
    row, figure = np.nonzero(known)
    first = np.diff(row, prepend=-1) != 0
    names = pa.array([figures[key][0].partition("(")[0] for key in values]).take(figure)
    factors = np.array([_FACTORS.get(figures[key][1], 1.0) for key in values])
    units = pa.array(["B" if figures[key][1] else None for key in values], pa.string())
    numbers = np.stack([column.fill_null(0).to_numpy() for column in values.values()], 1)
    of = pa.nulls(len(row), pa.string()) if component is None else component.take(row)
    rest = block.rest() | ({} if kind is None else {"args.Device Type": kind})
    if len(row):
        yield Batches(conversion).batch(
            "events",
            ids[row] + figure,
            kind="counter",
            timing="measured",
            ts=ts.take(row),
            device=device.take(row),
            name=pc.utf8_ltrim_whitespace(pc.binary_join_element_wise(pc.fill_null(of, ""), names, " ")),
            value=pa.array(numbers[row, figure] * factors[figure]),
            unit=units.take(figure),
            **{name: only(column.take(row), first) for name, column in rest.items()},
        )
    conversion.report.used(int(first.sum()))
    for lacking in np.flatnonzero(~known.any(1)).tolist():
        conversion.report.issue("bad-record", block.where(lacking), "no figure")


#: The ids of a file in a folder begin at this times its number: enough for 2^40 lines.
_IDS_OF_FILE = 1 << 44

#: Times after this (ns; September 2001) count from 1970.
_SINCE_1970 = 10**18


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields tasks, calls, markers, allocations, counters; summaries from statistics."""
    rows = RowBuilder(conversion)
    files = own_files(source, CSV, conversion) if source.is_folder else [("", source)]
    devices: set[int] = set()
    listed = Listed()
    latest: list[int] = []
    bad = BadFiles(conversion.report)
    with_tasks = any(PurePath(path).name.startswith("task_time") for path, _ in files)
    for place, (path, file) in enumerate(files):
        blocks = CsvBlocks(file, conversion, table_kind, place=f"{path}: " if path else "")
        events = EventRows(conversion, place * _IDS_OF_FILE, listed, with_tasks=with_tasks)
        for item in bad.left_out(file.path, iter(blocks)):
            if not isinstance(item, CsvRows):
                continue
            for batch in _batches(item, events, rows, conversion, place * _IDS_OF_FILE):
                _note(batch, devices, latest)
                yield batch
            yield from rows.ready()
    bad.end()
    for device in sorted(devices):
        rows.fact("device", id=_IDS_OF_FILE * len(files) + device, device=device, facts=DEVICE)
    if latest and latest[0] > _SINCE_1970:
        rows.fact("clock", id=_IDS_OF_FILE * len(files) - 1, facts={"kind": "unix", "unix_ns": 0})
    yield from rows.rest()


def _batches(
    item: CsvRows, events: EventRows, rows: RowBuilder, conversion: Conversion, first_id: int
) -> Iterator[Batch]:
    what = item.table.what
    if what in EVENTS:
        yield from events.rows(item)
    elif what in COUNTERS:
        yield from counters(item, conversion, first_id)
    else:
        add_statistics(item, rows, conversion, first_id)


def _note(batch: Batch, devices: set[int], latest: list[int]) -> None:
    """Notes the devices of rows, and their greatest time."""
    if batch.record == "events" and len(batch):
        devices.update(number for number in batch.column("device").unique().to_pylist() if number is not None)
        last = max(batch.column("ts")[0].as_py(), *latest) if latest else batch.column("ts")[0].as_py()
        latest[:] = [last]
