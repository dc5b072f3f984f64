"""Zones of the processors of each core: a row for a begin and one for an end, which the pipeline makes a slice of."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.columnar.typed_cells import Field, Text, Whole, typed
from ktrace.model.batch import Batch

from .cycles import nanoseconds

_TIME = "time[cycles since reset]"

FIELDS: dict[str, Field] = {
    "device": Whole("PCIe slot"),
    "x": Text("core_x"),
    "y": Text("core_y"),
    "processor": Text("RISC processor type"),
    "cycles": Whole(_TIME),
    "name": Text("zone name"),
    "type": Text("type", "zone phase"),
}

_HALVES = {"ZONE_START": "begin", "begin": "begin", "ZONE_END": "end", "end": "end"}


class Zones:
    """Makes events from rows. `chips` are the numbers and the architecture of those that were seen."""

    def __init__(self, conversion: Conversion, arch: str, mhz: int) -> None:
        self._conversion = conversion
        self._batches = Batches(conversion)
        self._arch = arch
        self._mhz = mhz
        self.chips: dict[int, str] = {}

    def batches(self, rows: CsvRows) -> Iterator[Batch]:
        """Yields begins and ends as halves of ranges, other marks (TS_DATA, TS_EVENT, ZONE_TOTAL) as instants."""
        block = typed(rows, FIELDS, self._conversion.report)
        block = block.replaced({"<ts>": nanoseconds(block.get("<cycles>"), self._mhz)})
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
