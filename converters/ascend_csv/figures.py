"""Rows with several figures of their own: memory over time, and the cores that ran a kernel.

Of memory, each figure of a row is a counter:

Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type      PTA Total Allocated, PTA Total Reserved
Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)                        Device ddr, Device hbm, Device memory

Of msprof op, each figure is a metric of the kernel, in the scope of a block and a core of it:

block_id,sub_block_id,aic_time(us),aic_cube_ratio,aic_main_mem_read_bw(GB/s)    block 0, cube0: aic_time in ns, ...

K is 1024, also in GB/s: msprof and torch_npu divide by 1024, msopprof by BIT_CONVERSION (data_parse/pmu_calculate.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Number, Time, Whole, Word, typed
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present
from ktrace.report import Report

from . import MEMORY, NPU_MEMORY
from .events import IDS, device_of

COUNTERS = frozenset({MEMORY, NPU_MEMORY})

_FIGURES = ("Total Allocated", "Total Reserved", "Total Active", "ddr", "hbm", "memory", "allocated", "active")

_FIELDS: dict[str, Field] = {
    "ts": Time("Timestamp"),
    "of": Word("Component", "event"),
    "device": Whole("Device_id"),
    "type": Word("Device Type", "Device"),
}

#: Unit in a heading -> the unit of its figures, and their factor.
_UNITS = {
    "": (None, 1.0),
    "%": ("%", 1.0),
    "us": ("ns", 1000.0),
    "KB": ("B", 1024.0),
    "MB": ("B", 1024.0**2),
    "GB/s": ("B/s", 1024.0**3),
}

#: A heading of msprof op: L1_to_GM_datas(KB)(estimate).
_HEADING = re.compile(r"(?P<name>[^()]+)(?:\((?P<unit>us|KB|GB/s|%)\))?(?P<rest>\(estimate\))?")

#: Headings of msprof op that aren't figures; a blank heading, after the last comma, is a number.
_NO_FIGURE = re.compile(r"block_id|sub_block_id|device[ _]id|#.*", re.IGNORECASE)

#: The ids of the metrics of a line begin at this times its number.
_IDS_OF_CORES = 1 << 12


class Measure(NamedTuple):
    """What a column measures: its heading, a name and a unit of the model, and the factor of its figures."""

    heading: str
    name: str
    unit: str | None
    factor: float


class _Found(NamedTuple):
    """The figures of a block: for each the row and the measure, and whether it is the row's first one."""

    row: Int64
    measure: Int64
    value: Float64
    first: Bools


def counters(item: CsvRows, conversion: Conversion, first_id: int) -> Iterator[Batch]:
    """Yields the counters of some rows. The first one of a row has the cells that are no figures."""
    measures = [
        Measure(column, column.partition("(")[0], *_UNITS[unit])
        for name in _FIGURES
        for column in item.table.headings
        for unit in ("KB", "MB", "")
        if column.casefold() == (f"{name}({unit})" if unit else name).casefold()
    ]
    block = timed(_typed(item, _FIELDS, measures, conversion.report), conversion, "<ts>")
    if not len(block):
        return
    device = device_of(block)
    ts: pa.Array = block.take("<ts>")
    component, kind = block.take("<of>"), block.take("<type>")
    values = _found(block, measures, conversion.report)
    of = pa.nulls(len(values.row), pa.string()) if component is None else component.take(values.row)
    names = _each(values, (measure.name for measure in measures))
    rest = block.rest() | ({} if kind is None else {"args.Device Type": kind})
    if len(values.row):
        yield BatchBuilder(conversion).batch(
            "events",
            _ids(block, values, first_id, IDS),
            kind="counter",
            timing="measured",
            ts=ts.take(values.row),
            device=device.take(values.row),
            name=pc.utf8_ltrim_whitespace(pc.binary_join_element_wise(pc.fill_null(of, ""), names, " ")),
            value=values.value,
            unit=_each(values, (measure.unit for measure in measures)),
            **_of_first(rest, values),
        )


class Kernel(NamedTuple):
    """The kernel that msprof op measured, from OpBasicInfo: the id of its row, its name, its device."""

    id: int | None = None
    name: str | None = None
    device: int | None = None
    run: str | None = None


def metrics(item: CsvRows, kernel: Kernel, conversion: Conversion, first_id: int) -> Iterator[Batch]:
    """Yields the metrics of a kernel on some cores. The first one of a row has the cells that are no figures."""
    measures = []
    for column in item.table.headings[:_IDS_OF_CORES]:
        if not _NO_FIGURE.fullmatch(column):
            parts = _HEADING.fullmatch(column)
            name, unit = (parts["name"] + (parts["rest"] or ""), parts["unit"] or "") if parts else (column, "")
            measures.append(Measure(column, name, *_UNITS[unit]))
    fields = {"block": Word("block_id"), "core": Word("sub_block_id"), "device": Whole("Device Id", "Device_id")}
    block = _typed(item, fields, measures, conversion.report)
    places = [block.take("<block>"), block.take("<core>")]
    device = block.take("<device>")
    values = _found(block, measures, conversion.report)
    if not len(values.row):
        return
    yield BatchBuilder(conversion).batch(
        "summaries",
        _ids(block, values, first_id, _IDS_OF_CORES),
        kind="kernel",
        name=kernel.name or "[no name]",
        parent=kernel.id,
        run=kernel.run,
        device=kernel.device if device is None else device.take(values.row),
        table=item.table.ordinal,
        scope=_scope(*places).take(values.row) if None not in places else None,
        metric=_each(values, (measure.name for measure in measures)),
        value=values.value,
        unit=_each(values, (measure.unit for measure in measures)),
        **_of_first(block.rest(), values),
    )


def _scope(block: pa.Array, core: pa.Array) -> pa.ListArray:
    """The place of each row: ["block 0", "cube0"]."""
    blocks = pc.binary_join_element_wise("block", pc.fill_null(block, "?"), " ").to_pylist()
    return pa.array(
        list(map(list, zip(blocks, pc.fill_null(core, "?").to_pylist(), strict=True))), pa.list_(pa.string())
    )


def _typed(item: CsvRows, fields: Mapping[str, Field], measures: Iterable[Measure], report: Report) -> Block:
    numbers = {f"figure {column}": Number(column) for column, *_ in measures}
    return typed(item, {**fields, **numbers}, report, {"ts": "us"})


def _found(block: Block, measures: list[Measure], report: Report) -> _Found:
    """The figures of the rows. Reports rows without a figure; counts the others."""
    columns: list[Any] = [block.take(f"<figure {heading_text}>") for heading_text, *_ in measures]
    has_value = np.stack([present(column) for column in columns], 1)
    values = np.stack([column.fill_null(0).to_numpy() for column in columns], 1)
    row, measure = np.nonzero(has_value)
    starts = np.diff(row, prepend=-1) != 0
    report.used(int(starts.sum()))
    for lacking in np.flatnonzero(~has_value.any(1)).tolist():
        report.issue("bad-record", block.where(lacking), "no figure")
    factors = np.array([factor for *_, factor in measures])
    return _Found(row, measure, values[row, measure] * factors[measure], starts)


def _each(values: _Found, texts: Iterable[str | None]) -> pa.StringArray:
    """The text of each figure's measure."""
    return pa.array(list(texts), pa.string()).take(pa.array(values.measure))


def _ids(block: Block, values: _Found, first_id: int, each: int) -> Int64:
    ids: Int64 = first_id + block.numbers.to_numpy()[values.row] * each + values.measure
    return ids


def _of_first(rest: Mapping[str, pa.Array], values: _Found) -> dict[str, Any]:
    """Arguments of rows, at the first figure of each row."""
    return {name: only(column.take(values.row), values.first) for name, column in rest.items()}
