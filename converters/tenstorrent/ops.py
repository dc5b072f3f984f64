"""Operations as kernels.

The report has cycles of the firmware alone (DEVICE FW START CYCLE), which waits on the cores while the operation before
runs on others, so that it overlaps. Its end is that of the kernel but for some hundred ns: the kernel begins its own
duration before that. (In the real reports at hand no two of 4,490 kernels of a chip overlap then, and at 1 GHz the time
between two is within 40 ns of OP TO OP LATENCY.) cpp_device_perf_report.csv has DEVICE KERNEL START CYCLE.

The report doesn't state the frequency: it is the MHz by which the firmware's cycles are its ns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Batches, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.typed_cells import Field, Text, Time, Whole, Word, typed
from ktrace.kit.text.json_items import beginning
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_of

from .cycles import nanoseconds

_SIGNPOST = "signpost"
_BEGIN, _END, _FIRMWARE = "DEVICE FW START CYCLE", "DEVICE FW END CYCLE", "DEVICE FW DURATION [ns]"
_KERNEL, _HOST_DURATION = "DEVICE KERNEL START CYCLE", "HOST DURATION [ns]"

#: Bytes of the beginning that tell the frequency.
_BEGINNING = 1 << 20

FIELDS: dict[str, Field] = {
    "name": Text("OP CODE", "OP NAME"),
    "cat": Word("OP TYPE"),
    "device": Whole("DEVICE ID"),
    "arch": Word("DEVICE ARCH"),
    "dur": Time("DEVICE KERNEL DURATION"),
    "kernel": Whole(_KERNEL),
    "end": Whole(_END),
    "host_ts": Whole("HOST START TS"),
    "host_dur": Time("HOST DURATION"),
}


class Rate(NamedTuple):
    """The frequency of the chips, and the cycle in which the first firmware began, on which chip."""

    mhz: int
    first: int
    chip: int | None


def rate_of(source: Source) -> Rate | None:
    """The rate of a report, by its beginning; None for a file without cycles and durations of the firmware."""
    cycles = ns = 0
    first: tuple[int, int | None] | None = None
    for row in _rows(beginning(source, _BEGINNING)):
        begin, end, took = (whole_of(row.get(name) or "", 0) for name in (_BEGIN, _END, _FIRMWARE))
        if begin is not None and end is not None and took and end > begin:
            cycles, ns = cycles + end - begin, ns + took
            first = first or (begin, whole_of(row.get("DEVICE ID") or ""))
    mhz = round(1000 * cycles / ns) if ns else 0
    return Rate(mhz, *first) if mhz and first else None


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of a report, as far as they can be read."""
    try:
        yield from csv.DictReader(text.splitlines())
    except csv.Error:
        return


class Operations:
    """Makes events from rows. `chips` are the numbers and architectures that were seen."""

    def __init__(self, conversion: Conversion, rate: Rate | None) -> None:
        self._conversion = conversion
        self._batches = Batches(conversion)
        self._rate = rate
        self._end: int | None = None  # of the kernel before
        self.chips: dict[int, str] = {}

    def batches(self, rows: CsvRows) -> Iterator[Batch]:
        """Yields kernels and signposts, and as summaries the operations without a place in the chip's time."""
        block = self._placed(typed(rows, FIELDS, self._conversion.report))
        timeless = pc.and_(block.or_nulls("<ts>").is_null(), pc.invert(block.get("<signpost>")))
        events = timed(block.filter(pc.invert(timeless)), self._conversion, "<ts>", dur="<dur>", open_end=True)
        if len(events):
            yield self._events(events)
        others = block.filter(timeless)
        known = pc.or_(others.or_nulls("<dur>").is_valid(), others.or_nulls("<host_dur>").is_valid())
        others = others.sound(known, "no duration", self._conversion.report)
        if len(others):
            yield self._summaries(others, rows.table.ordinal)

    def _placed(self, block: Block) -> Block:
        """Adds `<ts>`, `<signpost>` and `<timing>`.

        A kernel begins in its own cycle, else its duration before the end of the firmware. A signpost is where the
        kernel before it ends, the first ones where the firmware first began; on the first chip, since each has a clock
        of its own. Without cycles, it is at the host's own time.
        """
        signpost = pc.fill_null(pc.equal(block.or_nulls("<cat>", pa.string()), _SIGNPOST), False)
        dur, measured = block.or_nulls("<dur>"), block.or_nulls("<kernel>").is_valid()
        if self._rate is None:
            begin, measured = pc.if_else(signpost, block.or_nulls("<host_ts>"), None), signpost
        else:
            own, end = (nanoseconds(block.or_nulls(f"<{field}>"), self._rate.mhz) for field in ("kernel", "end"))
            begin = pc.if_else(signpost, None, pc.coalesce(own, pc.subtract(end, dur)))
            begin = pc.if_else(signpost, self._ends_before(block, begin, self._rate), begin)
        timing = pc.if_else(measured, "measured", "derived")
        return block.replaced({"<ts>": begin, "<signpost>": signpost, "<timing>": timing})

    def _ends_before(self, block: Block, begin: pa.Int64Array, rate: Rate) -> pa.Int64Array:
        """For each row the end of the last kernel of the first chip before it."""
        if self._end is None:
            self._end = nanoseconds(pa.array([rate.first]), rate.mhz)[0].as_py()
        ends = pc.add(begin, block.or_nulls("<dur>"))
        known = pc.fill_null(pc.equal(block.or_nulls("<device>"), pa.scalar(rate.chip, pa.int64())), False)
        known = pc.and_(known, ends.is_valid()).to_numpy(zero_copy_only=False)
        latest = np.maximum.accumulate(np.where(known, np.arange(len(block)), -1))
        before = np.where(latest >= 0, ends.fill_null(0).to_numpy(zero_copy_only=False)[latest], self._end)
        self._end = int(before[-1])
        return pa.array(before)

    def _events(self, block: Block) -> Batch:
        self._see(block)
        signpost = block.take("<signpost>")
        columns: dict[str, Any] = {name: block.take(f"<{name}>") for name in ("name", "cat", "ts", "dur", "device")}
        columns |= {"kind": pc.if_else(signpost, "instant", "kernel"), "timing": block.take("<timing>")}
        columns |= {"track": pc.if_else(signpost, _SIGNPOST, None)} | _kept(block)
        return self._batches.events(block, block.numbers.to_numpy(), **columns)

    def _summaries(self, block: Block, table: int) -> Batch:
        """Operations without cycles by the time that they took: on the chip, else on the host."""
        on_chip = block.or_nulls("<dur>")
        kinds = pc.if_else(on_chip.is_valid(), "kernel", "op")
        total = pc.coalesce(on_chip, block.or_nulls("<host_dur>")).cast(pa.float64())
        columns: dict[str, Any] = {name: block.take(f"<{name}>") for name in ("name", "cat", "device")}
        columns |= _kept(block) | {"kind": kinds, "total": total, "table": table, "count": 1, "unit": "ns"}
        block.drop("<ts>", "<dur>")
        return self._batches.summaries(block, block.numbers.to_numpy(), **columns)

    def _see(self, block: Block) -> None:
        """Notes the chips."""
        arch = block.get("<arch>")
        numbers = block.or_nulls("<device>").dictionary_encode()
        for code, number in enumerate(numbers.dictionary.to_pylist()):
            if number is not None and number not in self.chips:
                row = pc.index(numbers.indices, code).as_py()
                self.chips[number] = (arch[row].as_py() if arch is not None else None) or f"chip {number}"


def _kept(block: Block) -> dict[str, pa.Array | None]:
    """What was read of other columns, as arguments under the source's own headings; the architecture is a fact."""
    block.drop("<arch>", "<signpost>", "<timing>")
    columns = (("end", _END), ("kernel", _KERNEL), ("host_ts", "HOST START TS"), ("host_dur", _HOST_DURATION))
    return {f"args.{heading}": block.take(f"<{field}>") for field, heading in columns}
