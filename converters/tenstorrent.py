"""Profiles of tt-metal on Tenstorrent's chips: its report of operations, and the zones of each core.

ops_perf_results_*.csv (tools/tracy/process_ops_logs.py), a line for each operation and for each signpost of the host;
cpp_device_perf_report.csv has the same columns of the device, and OP NAME:

    OP CODE,OP TYPE,GLOBAL CALL COUNT,DEVICE ID,DEVICE ARCH,ATTRIBUTES,MATH FIDELITY,CORE COUNT,...,HOST START TS,...,
    DEVICE FW START CYCLE,DEVICE FW END CYCLE,OP TO OP LATENCY [ns],...,DEVICE KERNEL DURATION [ns],...
    MatmulDeviceOperation,tt_dnn_device,3072,0,wormhole_b0,{'bcast_batch': 'true'},HiFi2,64,...
    decode started,signpost,,,,,,,...

profile_log_device.csv (tt_metal/impl/profiler/profiler.cpp), a line for each begin and each end of a zone:

    ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64
    PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, ...
    0,1,2,BRISC,45671,64479520316,0,7,,,BRISC-FW,ZONE_START,433,brisc.cc,

Until 2024 `zone phase` (begin, end) was in the place of `type`, `stat value` in that of `data`.

Operations are kernels; a zone of a core has a row for its start and one for its end.

The report of operations has cycles of the firmware alone (DEVICE FW START CYCLE), which waits on the cores while the
operation before runs on others, so that it overlaps. Its end is that of the kernel but for some hundred ns: the kernel
begins its own duration before that. (In the real reports at hand no two of 4,490 kernels of a chip overlap then, and at
1 GHz the time between two is within 40 ns of OP TO OP LATENCY.) cpp_device_perf_report.csv has DEVICE KERNEL START
CYCLE. The frequency isn't stated: it is the MHz by which the firmware's cycles are its ns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.columnar.typed_cells import Field, Text, Time, Whole, Word, typed
from ktrace.kit.text.json_items import beginning
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_of
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder

_CHIP_LINE = re.compile(r"\s*ARCH: *\w+ *, *CHIP_FREQ\[MHz\]:")
_LINES = 4

OPS, ZONES = "operations", "zones"

_DURATION = "DEVICE KERNEL DURATION [ns]"
_NEEDED = {
    OPS: (("OP CODE", "OP NAME"), ("DEVICE ID",), (_DURATION,)),
    ZONES: (
        *(("PCIe slot",), ("core_x",), ("core_y",), ("RISC processor type",)),
        *(("time[cycles since reset]",), ("zone name",), ("type", "zone phase")),
    ),
}


def table_kind(cells: Sequence[str]) -> str | None:
    """OPS or ZONES for the headings of such a table, None for another line."""
    headings = {cell.strip() for cell in cells}
    for kind, needs in _NEEDED.items():
        if all(any(name in headings for name in names) for names in needs):
            return kind
    return None


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of either file."""
    text = (sample.text or "")[: 1 << 14]
    for line in text.splitlines()[:_LINES]:
        if _CHIP_LINE.match(line):
            return Match(Score.DIALECT, "begins with the frequency of a chip, as tt-metal's device log does")
        if "," in line and (kind := table_kind(line.split(","))):
            return Match(Score.DIALECT, f"has the headings of tt-metal's {kind}")
    return None


#: Cycles from here on aren't times: 2000 times as many don't fit int64. At 1 GHz that is after 53 days.
_LIMIT = (1 << 63) // 2000 - 1000

#: A time that `timed` refuses.
_REFUSED = (1 << 63) - 1


def nanoseconds(cycles: pa.Int64Array, mhz: int) -> pa.Int64Array:
    """Cycles since the chip's reset in ns, rounded half up; null stays null, cycles beyond the limit become refused."""
    has_cycles = present(cycles)
    numbers = cycles.fill_null(0).to_numpy(zero_copy_only=False)
    good = np.abs(numbers) < _LIMIT
    ns = np.where(good, (2000 * np.where(good, numbers, 0) + mhz) // (2 * mhz), _REFUSED)
    return pa.array(ns, mask=~has_cycles)


_SIGNPOST = "signpost"
_BEGIN, _END, _FIRMWARE = "DEVICE FW START CYCLE", "DEVICE FW END CYCLE", "DEVICE FW DURATION [ns]"
_KERNEL, _HOST_DURATION = "DEVICE KERNEL START CYCLE", "HOST DURATION [ns]"

#: Bytes of the beginning that tell the frequency.
_BEGINNING = 1 << 20

_OP_FIELDS: dict[str, Field] = {
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
        lines = text.splitlines()
        first = next((number for number, line in enumerate(lines) if table_kind(line.split(","))), 0)
        yield from csv.DictReader(lines[first:])
    except csv.Error:
        return


class Operations:
    """Makes events from rows. `chips` are the numbers and architectures that were seen."""

    def __init__(self, conversion: Conversion, rate: Rate | None) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self._rate = rate
        self._end: int | None = None  # of the kernel before
        self.chips: dict[int, str] = {}

    def batches(self, rows: CsvRows) -> Iterator[Batch]:
        """Yields kernels and signposts, and as summaries the operations without a place in the chip's time."""
        block = self._placed(typed(rows, _OP_FIELDS, self._conversion.report))
        timeless = pc.and_(block.or_nulls("<ts>").is_null(), pc.invert(block.get("<signpost>")))
        events = timed(block.filter(pc.invert(timeless)), self._conversion, "<ts>", dur="<dur>", open_end=True)
        if len(events):
            yield self._events(events)
        others = block.filter(timeless)
        has_duration = pc.or_(others.or_nulls("<dur>").is_valid(), others.or_nulls("<host_dur>").is_valid())
        others = others.sound(has_duration, "no duration", self._conversion.report)
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
            begin_stated, end = (
                nanoseconds(block.or_nulls(f"<{field}>"), self._rate.mhz) for field in ("kernel", "end")
            )
            begin = pc.if_else(signpost, None, pc.coalesce(begin_stated, pc.subtract(end, dur)))
            begin = pc.if_else(signpost, self._ends_before(block, begin, self._rate), begin)
        timing = pc.if_else(measured, "measured", "derived")
        return block.replaced({"<ts>": begin, "<signpost>": signpost, "<timing>": timing})

    def _ends_before(self, block: Block, begin: pa.Int64Array, rate: Rate) -> pa.Int64Array:
        """For each row the end of the last kernel of the first chip before it."""
        if self._end is None:
            self._end = nanoseconds(pa.array([rate.first]), rate.mhz)[0].as_py()
        ends = pc.add(begin, block.or_nulls("<dur>"))
        ends_before = pc.fill_null(pc.equal(block.or_nulls("<device>"), pa.scalar(rate.chip, pa.int64())), False)
        ends_before = pc.and_(ends_before, ends.is_valid()).to_numpy(zero_copy_only=False)
        latest = np.maximum.accumulate(np.where(ends_before, np.arange(len(block)), -1))
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
        total = pc.coalesce(on_chip, block.or_nulls("<host_dur>")).cast(pa.float64(), safe=False)
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


_CHIP = re.compile(r"\s*ARCH: *(?P<arch>\w+) *, *CHIP_FREQ\[MHz\]: *(?P<mhz>\d{1,6})\b.*")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields operations as kernels with signposts, or the halves of zones. Chips are facts.

    Raises DamagedInput for zones without the frequency of the chip, by which cycles become ns.
    """
    facts = RowBuilder(conversion, first_id=0)
    facts.tool_and_clock("tt-metal", "session")
    lines = CsvBlocks(source, conversion, table_kind)
    operations = Operations(conversion, rate_of(source))
    zones: Zones | None = None
    for item in lines:
        if isinstance(item, CsvRows):
            if item.table.what == OPS:
                yield from operations.batches(item)
                continue
            if zones is None:
                raise DamagedInput(
                    "it doesn't state the frequency of the chip",
                    path=source.path,
                    expected="a first line such as: ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64",
                    remedy="put that line above the headings, with the chip's own frequency",
                )
            yield from zones.batches(item)
        elif isinstance(item, Line) and (match := _CHIP.fullmatch(item.text)) and int(match["mhz"]):
            zones = Zones(conversion, match["arch"], int(match["mhz"]))
            lines.became("catalog")
    for number, arch in sorted((operations.chips | (zones.chips if zones else {})).items()):
        facts.fact("device", device=number, name=arch, facts={"vendor": "Tenstorrent", "kind": "chip"})
    yield from facts.rest()


_TIME = "time[cycles since reset]"

_ZONE_FIELDS: dict[str, Field] = {
    "device": Whole("PCIe slot"),
    "x": Text("core_x"),
    "y": Text("core_y"),
    "processor": Text("RISC processor type"),
    "ts": Whole(_TIME),
    "name": Text("zone name"),
    "type": Text("type", "zone phase"),
}

_HALVES = {"ZONE_START": "begin", "begin": "begin", "ZONE_END": "end", "end": "end"}


class Zones:
    """Makes events from rows. `chips` are the numbers and the architecture of those that were seen."""

    def __init__(self, conversion: Conversion, arch: str, mhz: int) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self._arch = arch
        self._mhz = mhz
        self.chips: dict[int, str] = {}

    def batches(self, rows: CsvRows) -> Iterator[Batch]:
        """Yields begins and ends as halves of ranges, other marks (TS_DATA, TS_EVENT, ZONE_TOTAL) as instants."""
        block = typed(rows, _ZONE_FIELDS, self._conversion.report)
        block = block.replaced({"<ts>": nanoseconds(block.get("<ts>"), self._mhz), "<cycles>": block.get("<ts>")})
        block = timed(block, self._conversion, "<ts>")
        if not len(block):
            return
        self.chips |= dict.fromkeys(pc.unique(pc.drop_null(block.get("<device>"))).to_pylist(), self._arch)
        types, cycles = block.take("<type>"), block.take("<cycles>")
        half = mapped_words(types, _HALVES.get)
        place = pc.binary_join_element_wise("core ", block.take("<x>"), ",", block.take("<y>"), "")
        is_end = pc.fill_null(pc.equal(half, "end"), False)
        yield self._batches.events(
            block,
            block.numbers.to_numpy(),
            kind=pc.if_else(half.is_valid(), "range", "instant"),
            half=half,
            name=block.take("<name>"),
            cat=pc.if_else(half.is_valid(), None, types),
            track=pc.binary_join_element_wise(place, block.take("<processor>"), " "),
            device=block.take("<device>"),
            ts=block.take("<ts>"),
            **{f"args.{_TIME}": pc.if_else(is_end, None, cycles), f"args.{_TIME}#2": pc.if_else(is_end, cycles, None)},
        )


FORMAT = Format(
    "tenstorrent",
    "Tenstorrent tt-metal profiles: ops_perf_results, profile_log_device CSV",
    patterns=("ops_perf_results*.csv", "cpp_device_perf_report*.csv", "profile_log_device*.csv"),
    probe=probe,
    read=read,
    words=("chip_freq[mhz]", "device kernel duration [ns]", "time[cycles since reset]"),
    prose=True,
)
