"""Reads Ascend's CSV files: rows with times as events, statistics as summaries; a folder of them is one trace.

Of statistics, a row is a summary, or one for each figure of a step:

0,MatMulV2,AI_CORE,332,17945.3,1.28,54.052,329.68,8.212       kernel MatMulV2: count, total, min, avg, max, percent
0,1,85704.02,3873.52,630.54,...                               metric Computing of step 1, metric Free of step 1, ...
MatMul_mix_aic,mix,9.25,2,4,0,7001,1650,1800,                 kernel MatMul_mix_aic, that the metrics of cores are of
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source
from ktrace.kit.ascend_folder import CSV, OP, operator_run, own_files
from ktrace.kit.ascend_tasks import DEVICE, task_kind
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.text.headings import STATISTICS, Columns, heading, plain, read_figures
from ktrace.kit.text.numbers import number
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import (
    API,
    CACHE,
    CODE,
    COMMUNICATION,
    CORES,
    INSTRUCTIONS,
    LINKS,
    OP_STATISTIC,
    OPERATOR,
    OPERATORS,
    STEP_TIME,
    STEPS,
    UNTIMED,
    table_kind,
)
from .events import EVENTS, IDS, EventRows, Listed
from .figures import COUNTERS, Kernel, counters, metrics
from .links import add_links
from .step_trace import steps

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
    OPERATOR: Columns(
        {
            **{"name": ("op name",), "type": ("op type",), "total": ("task duration",), **_PLACE},
            **{"grid_x": ("block dim",), "pid": ("pid",)},
        },
        ("name", "total"),
    ),
    INSTRUCTIONS: Columns(
        {"name": ("instr",), "scope": ("pipe",), "count": ("call count",), "total": ("running time",)},
        ("name", "total"),
    ),
    CODE: Columns({"name": ("code",), "count": ("call count",), "total": ("running time",)}, ("name", "total")),
}
_KINDS = {
    COMMUNICATION: "kernel",
    API: "api",
    OPERATORS: "op",
    OPERATOR: "kernel",
    INSTRUCTIONS: "metric",
    CODE: "metric",
}

#: Tables of no device: of the host, and of the simulator.
_OF_NO_DEVICE = frozenset({API, OPERATORS, INSTRUCTIONS, CODE})

#: The core whose table of the simulator it is.
_CORE = re.compile(r"(core\d{1,9}(?:\.\w{1,40})?)_(?:instr|code)_exe.{0,40}\.csv")

#: Columns of a step that aren't durations.
_NOT_DURATIONS = frozenset({"device id", "step", "type", "index"})

#: Rates of the cache, as msprof writes them: parts of 1.
_RATES = ("Hit Rate", "Victim Rate")

#: Cells without a figure.
_NONE = ("", "N/A", "NA")


def add_statistics(
    item: CsvRows, rows: RowBuilder, conversion: Conversion, first_id: int, run: str | None = None, core: str = ""
) -> int:
    """Adds the summaries of some rows; reports those without a name or a figure, and figures that aren't numbers.

    `core` is that of a table of the simulator. Returns the number of rows that have summaries.
    """
    headings, added = item.table.headings, 0
    cells = [item.block.take(name).to_pylist() for name in headings]  # type: ignore[union-attr]
    for line, *values in zip(item.block.numbers.to_pylist(), *cells, strict=True):
        texts = [value or "" for value in values]
        place: dict[str, Any] = {"id": first_id + line * IDS, "table": item.table.ordinal, "run": run}
        place |= {"scope": [core]} if core else {}
        add = {STEP_TIME: _add_step, CACHE: _add_cache}.get(item.table.what, _add_row)
        where, odd = f"{item.block.place} {line}", dict[str, str]()
        if problem := add(item, texts, rows, place, odd):
            conversion.report.issue("bad-record", where, problem)
            continue
        conversion.report.used()
        added += 1
        for name, cell in odd.items():
            conversion.report.issue("misfit", where, f"{name}: {cell[:40]}")
    return added


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
    scope = [*place.pop("scope", ()), *filter(None, [_cell(cells, fields, "scope")])]
    once: dict[str, Any] = {"count": 1} if what in (UNTIMED, OPERATOR) else {}
    args = dict(figures.args)
    ids: dict[str, Any] = {}
    for field in fields.keys() & {"device", "grid_x", "pid"}:
        ids[field] = _to_int_or_none(cell := _cell(cells, fields, field))
        if ids[field] is None and cell not in _NONE:
            args[item.table.headings[fields[field]]] = cell
    if ids.get("device") is None and what not in _OF_NO_DEVICE:
        ids["device"] = 0
    rows.summary(
        _KINDS.get(what) or task_kind(core),
        name,
        cat=core or None,
        scope=scope or None,
        args=args,
        **place,
        **ids,
        **once | figures.columns,
    )
    return None


def _to_int_or_none(cell: str) -> int | None:
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 19 else None


def _cell(cells: list[str], fields: dict[str, int], field: str) -> str:
    return cells[fields[field]].strip() if field in fields else ""


def _add_step(
    item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any], odd: dict[str, str]
) -> str | None:
    """Adds a metric for each part of a step. Its times are in µs, though no heading has the unit."""
    by_heading = dict(zip((heading(name).key for name in item.table.headings), cells, strict=True))
    step, device = by_heading.get("step", "").strip(), by_heading.get("device id", "").strip()
    others = {
        name: plain(by_heading[name.casefold()])
        for name in ("Type", "Index")
        if by_heading.get(name.casefold(), "").strip()
    }
    times = {
        name: (cell.strip(), number(cell.strip()))
        for name, cell in zip(item.table.headings, cells, strict=True)
        if heading(name).key not in _NOT_DURATIONS and cell.strip()
    }
    odd |= {name: cell for name, (cell, value) in times.items() if value is None and cell not in _NONE}
    added = 0
    for name, (_, value) in times.items():
        if value is None:
            continue
        rows.summary(
            "metric",
            name,
            device=_to_int_or_none(device),
            scope=[f"step {step}"] if step else None,
            value=float(value * 1000),
            unit="ns",
            args=others | odd,
            **place | {"id": place["id"] + added},
        )
        added += 1
    return None if added else "no figure"


def _add_cache(
    item: CsvRows, cells: list[str], rows: RowBuilder, place: dict[str, Any], odd: dict[str, str]
) -> str | None:
    """Adds a metric of a kernel for each rate."""
    by_heading = dict(zip(item.table.headings, cells, strict=True))
    name = by_heading.pop("Op Name", "").strip()
    rates = {rate: value for rate in _RATES if (value := number(by_heading.get(rate, "").strip())) is not None}
    odd |= {
        rate: by_heading[rate] for rate in _RATES if by_heading.get(rate, "").strip() not in _NONE and rate not in rates
    }
    if not name or not rates:
        return "no figure" if name else "no name"
    args = {key: plain(cell) for key, cell in by_heading.items() if cell.strip() and key not in rates}
    for index, (rate, value) in enumerate(rates.items()):
        columns = place | {"id": place["id"] + index}
        rows.summary("kernel", name, metric=rate, value=float(value), args=args, **columns)
    return None


#: The ids of a file in a folder begin at this times its number: enough for 2^40 lines.
_IDS_OF_FILE = 1 << 44

#: Times after this (ns; September 2001) count from 1970.
_SINCE_1970 = 10**18


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields tasks, calls, markers, allocations, counters; summaries from statistics."""
    rows = RowBuilder(conversion)
    files = own_files(source, CSV, conversion, OP) if source.is_folder else [("", source)]
    files.sort(key=lambda file: not PurePath(file[0]).name.startswith(OPERATOR))
    kernels: dict[str, Kernel] = {}
    several = len({operator_run(path) for path, _ in files}) > 1
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
            run, first_id = operator_run(path), place * _IDS_OF_FILE
            if item.table.what == OPERATOR:
                folder = str(PurePath(path).parent) if several else None
                if add_statistics(item, rows, conversion, first_id, folder) == len(item.block) == 1:
                    kernels[run] = _kernel(item, first_id, folder)
                yield from rows.rest()  # before its metrics, in batches of any size
            named = _CORE.fullmatch(PurePath(file.path).name)
            core = named[1] if named and item.table.what in (INSTRUCTIONS, CODE) else ""
            for batch in _batches(item, events, rows, conversion, first_id, kernels.get(run, Kernel()), core):
                _note(batch, devices, latest)
                yield batch
            yield from rows.ready()
    bad.end()
    for device in sorted(devices):
        rows.fact("device", id=_IDS_OF_FILE * len(files) + device, device=device, facts=DEVICE)
    if latest and latest[0] > _SINCE_1970:
        rows.fact("clock", id=_IDS_OF_FILE * len(files) - 1, facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    yield from rows.rest()


def _batches(
    item: CsvRows, events: EventRows, rows: RowBuilder, conversion: Conversion, first_id: int, kernel: Kernel, core: str
) -> Iterator[Batch]:
    what = item.table.what
    if what in EVENTS:
        yield from events.rows(item)
    elif what in COUNTERS:
        yield from counters(item, conversion, first_id)
    elif what == STEPS:
        yield from steps(item, conversion, first_id)
    elif what == LINKS:
        add_links(item, rows, conversion.report, first_id)
    elif what == CORES:
        yield from metrics(item, kernel, conversion, first_id)
    elif what != OPERATOR:
        add_statistics(item, rows, conversion, first_id, core=core)


def _kernel(item: CsvRows, first_id: int, run: str | None) -> Kernel:
    """The kernel of OpBasicInfo, which has one row."""
    fields = _COLUMNS[OPERATOR].match([heading(name) for name in item.table.headings]) or {}
    columns = {field: item.block.get(item.table.headings[index]) for field, index in fields.items()}
    texts = {field: cells[0].as_py() or "" for field, cells in columns.items() if cells is not None}
    device = _to_int_or_none(texts.get("device", "").strip())
    return Kernel(first_id + item.block.numbers[0].as_py() * IDS, texts["name"].strip(), device or 0, run)


def _note(batch: Batch, devices: set[int], latest: list[int]) -> None:
    """Notes the devices of rows, and their greatest time."""
    if batch.record == "events" and len(batch):
        devices.update(number for number in batch.column("device").unique().to_pylist() if number is not None)
        last = max(batch.column("ts")[0].as_py(), *latest) if latest else batch.column("ts")[0].as_py()
        latest[:] = [last]
