"""`export_memory_timeline("x.raw.json.gz")`: a list of what happened to the memory of a device.

    [[-1, 0, 4096, 0], [1715000000000000000, 1, 2097152, 4], [1715000000000001000, 3, -2097152, 4]]

Each is a time in ns (-1: before the capture), what happened, bytes, and the number of a category (torch 2.x).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.model import Batch
from ktrace.rows import Rows
from ktrace.source import Source

_ROW = re.compile(rb"\[([^\[\]]*)\]")
_CELLS = re.compile(
    rb"\s*(-?[0-9]{1,18}|-?[1-8][0-9]{18})\s*,\s*([0-3])\s*,\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*"
)
_ACTIONS = ("preexisting", "create", "increment_version", "destroy")
_CHUNK = 1 << 20
_LONGEST_ROW = 1 << 12


def read_memory_timeline(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """An alloc for each row, named after its action; of what there was before the capture a summary of its bytes.

    The category stays in `args`. Raises DamagedInput where no row is found.
    """
    rows, report, taken = Rows(conversion, first_id=0), conversion.report, 0
    ended = False
    for place, text in _row_texts(source):
        if place < 0:
            ended = True
            continue
        report.record()
        cells = _CELLS.fullmatch(text)
        if not cells:
            report.issue("bad-record", f"byte {place}", text[:60].decode("utf-8", "replace"))
            continue
        time, action, size, category = map(int, cells.groups())
        args = {"category": category}
        if time < 0:
            rows.summary("alloc", _ACTIONS[action], id=place, metric="bytes", unit="B", value=float(size), args=args)
        else:
            rows.event("alloc", _ACTIONS[action], id=place, ts=time, bytes=size, args=args)
        report.used()
        taken += 1
        yield from rows.ready()
    yield from rows.rest()
    if not taken:
        raise DamagedInput("has no rows", path=source.path, expected="[time, action, bytes, category] in a list")
    if not ended:
        report.issue("cut", "the end", "the list has no end", 0)


def _row_texts(source: Source) -> Iterator[tuple[int, bytes]]:
    """Byte and inside of each innermost list; (-1, b"") for the end of the outer one."""
    with source.open() as stream:
        text = stream.read(_CHUNK)
        start = text.find(b"[") + 1
        text = text[start:]
        while text:
            end = 0
            for found in _ROW.finditer(text):
                yield start + found.start(), found[1]
                end = found.end()
            if b"]" in text[end:]:
                yield -1, b""
            rest = text[end:]
            more = stream.read(_CHUNK)
            if not more or len(rest) > _LONGEST_ROW:
                start, text = start + len(text), more
            else:
                start, text = start + end, rest + more
