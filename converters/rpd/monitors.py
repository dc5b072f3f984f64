"""rocpd_monitor: the values that a monitor measured, and their durations.

gpu 0  sclk  8306017492311037 ... 8306017500777538  1700
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, Block, timed
from ktrace.kit.sqlite.database import Database
from ktrace.kit.sqlite.lookup import FirstId
from ktrace.model.batch import Batch

#: Monitors of clocks, which rocm-smi gives in MHz.
_CLOCKS = pa.array(["sclk", "mclk", "fclk", "socclk", "dcefclk"])

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def read_monitors(database: Database, table: str, ids: FirstId, conversion: Conversion) -> Iterator[Batch]:
    """Yields counters with a duration. A value that isn't a number becomes an argument."""
    batches = Batches(conversion)
    for block in database.blocks(table, conversion.batch_rows):
        sound = timed(block, conversion, "start", "end", open_end=True)
        if len(sound):
            yield _batch(batches, sound, ids)


def _batch(batches: Batches, block: Block, ids: FirstId) -> Batch:
    start, end = block.take("start"), block.take("end")
    columns = _values(block.take("value")) | _place(block)
    named = block.take("monitorType")
    block.drop("id")
    return batches.events(
        block,
        ids.of(block.numbers),
        kind="counter",
        name="[no name]" if named is None else pc.fill_null(named, "[no name]"),
        unit=None
        if named is None
        else pc.if_else(pc.fill_null(pc.is_in(named, value_set=_CLOCKS), False), "MHz", None),
        ts=start,
        dur=None if end is None else pc.subtract(end, start),
        **columns,
    )


def _values(column: pa.Array | None) -> dict[str, Any]:
    """The numbers, and other texts as an argument."""
    if column is None:
        return {}
    if not pa.types.is_string(column.type):
        return {"value": column.cast(pa.float64())}
    plain = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
    other = pc.if_else(plain, None, column)
    found = {"value": pc.if_else(plain, column, None).cast(pa.float64())}
    return found | ({"args.value": other} if other.null_count < len(other) else {})


def _place(block: Block) -> dict[str, Any]:
    """The GPU's number, or a track for another device."""
    kinds, number = block.take("deviceType"), block.take("deviceId")
    if kinds is None or number is None:
        return {} if number is None else {"device": number}
    gpu = pc.fill_null(pc.equal(pc.utf8_lower(kinds), "gpu"), False)
    other = pc.binary_join_element_wise(kinds, number.cast(pa.string()), " ")
    return {"device": pc.if_else(gpu, number, None), "track": pc.if_else(gpu, None, other)}
