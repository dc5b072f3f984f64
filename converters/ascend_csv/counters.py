"""Memory over time: each figure of a row is a counter.

Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type      PTA Total Allocated, PTA Total Reserved
Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)                        Device ddr, Device hbm, Device memory
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Number, Time, Whole, Word, typed
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .events import IDS, device_of
from .tables import MEMORY, NPU_MEMORY

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
