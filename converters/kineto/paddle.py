"""Paddle's traces have exact starts beside whole µs, and names that end in the duration.

    {"name": "matmul dygraph[60.770 us]", "ts": 1795708689736462, "dur": 60.770, "ph": "X", "cat": "Operator",
     "args": {"start_time": "120.218 us", "end_time": "180.988 us"}}

    ──►  matmul dygraph  ts 1795708689736462218

`start_time` counts from the earliest event, whose ts is rounded down as all others are: exact starts are right to each
other, and all of them less than 1 µs early (paddle/fluid/platform/profiler/chrometracing_logger.cc).
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded

_SPAN = re.compile(rb'"span_ind[e]?x"\s*:')
_FIRST = re.compile(
    rb'"ts"\s*:\s*([0-9]{1,18}),[^{}]{0,400}\{[^{}]{0,200}?"start_time"\s*:\s*"([0-9]{1,15}\.[0-9]{3}) us"'
)
_DURATION = r"\[[0-9]+\.[0-9]{3} (?:ns|us|ms|s)\]$"
_START = r"^(?P<us>[0-9]{1,15})\.(?P<ns>[0-9]{3}) us$"

#: Bytes in which the first slice is found; how far an exact start may be from the rounded one, in ns.
_HEAD, _APART = 1 << 16, 2_000


def origin(source: Source) -> int | None:
    """The time in ns that `start_time` counts from, by the first slice that has one; None if Paddle didn't write it."""
    head = source.beginning(_HEAD)
    match = _FIRST.search(head) if _SPAN.search(head[:4096]) else None
    return int(match[1]) * 1000 - int(Decimal(match[2].decode()) * 1000) if match else None


def exact(batch: Batch, start: int) -> Batch:
    """The events with exact starts, and names without the duration. `start` is what `start_time` counts from."""
    texts = batch.argument("start_time", pa.array(range(len(batch)), pa.int64()))
    parts = pc.extract_regex(texts, _START)
    us, ns = (pc.struct_field(parts, name).cast(pa.int64()) for name in ("us", "ns"))
    ts = pc.add(pc.add(pc.multiply(us, 1000), ns), start)
    near = pc.less(pc.abs(pc.subtract(ts, batch.column("ts"))), _APART)
    names = pc.replace_substring_regex(decoded(batch.column("name")), _DURATION, "")
    return batch.replaced({"ts": pc.coalesce(pc.if_else(near, ts, None), batch.column("ts")), "name": names})
