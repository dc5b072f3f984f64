"""Reads either file in blocks of columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import OPS, table_kind
from .ops import Operations, rate_of
from .zones import Zones

_CHIP = re.compile(r"\s*ARCH: *(?P<arch>\w+) *, *CHIP_FREQ\[MHz\]: *(?P<mhz>\d{1,6})\b.*")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields operations as kernels with signposts, or the halves of zones. Chips are facts.

    Raises DamagedInput for zones without the frequency of the chip, by which cycles become ns.
    """
    facts = RowBuilder(conversion, first_id=0)
    facts.fact("source", facts={"tool": "tt-metal"})
    facts.fact("clock", facts={"kind": "session"})
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
        elif isinstance(item, Line) and (found := _CHIP.fullmatch(item.text)) and int(found["mhz"]):
            zones = Zones(conversion, found["arch"], int(found["mhz"]))
            lines.became("catalog")
    for number, arch in sorted((operations.chips | (zones.chips if zones else {})).items()):
        facts.fact("device", device=number, name=arch, facts={"vendor": "Tenstorrent", "kind": "chip"})
    yield from facts.rest()
