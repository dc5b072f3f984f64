"""Reads what `export_memory_timeline` writes about a device's memory: single actions, or bytes by category.

    [[-1, 1, 4096, 0], [1715000000000000000, 2, 2097152, 4], [1715000000000001000, 4, -2097152, 4]]     x.raw.json.gz
    [[1715000000000000, 1715000000000001], [[0, 4096, 0, 0, 0, 2097152, 0, 0, 0], [0, 4096, ...]]]      x.json

Each row of the first form is a time in ns (-1: before the capture), an action, bytes, and the number of a category.
The second form lists times in us, and for each time a 0 followed by the bytes of each category
(torch/profiler/_memory_profiler.py, 2.x).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ktrace.byte_account import ByteAccount
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.trace_json.salvage import decode_mended, whole_document
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64, shown
from ktrace.model.json_text import NOT_JSON
from ktrace.model.row_builder import RowBuilder

_ROW = re.compile(rb"\[([^\[\]]*)\]")
#: An element that isn't a flat list, or a part of it; the end of the list.
_OTHER = re.compile(rb"\](?=[\s,\]]*(?:\[|\Z))|\[(?:[^\[\]]|\[[^\[\]]*\]){0,4000}\]|\[?[^\[\],]{1,4000}|[\[\]]")
_BLANK = re.compile(rb"[\s,]*")
_CELLS = re.compile(
    rb"\s*(-?[0-9]{1,18}|-?[1-8][0-9]{18})\s*,\s*([1-4])\s*,\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*"
)
#: Actions by number, counted from 1 (torch writes the values of a Python enumeration).
_ACTIONS = ("", "preexisting", "create", "increment_version", "destroy")

#: The categories in the order of their numbers; the last is for memory that torch couldn't classify.
_CATEGORIES = (
    *("parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"),
)
_CHUNK = 1 << 20

#: Times in us beyond this aren't times.
_LATEST = (1 << 52) - 1
_LONGEST_ROW = 1 << 12


def read_memory_timeline(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an alloc for each row, named after its action, and a summary for memory allocated before the capture.

    The category is a word in `args`, or a number if it is unknown. Raises DamagedInput if no row is found.
    """
    rows, report, used = RowBuilder(conversion, first_id=0), conversion.report, 0
    ended = False
    for place, text in _row_texts(source, report.bytes):
        if place < 0:
            ended = True
            continue
        report.record()
        cells = _CELLS.fullmatch(text)
        if not cells:
            report.issue("bad-record", f"byte {place}", text[:60].decode("utf-8", "replace"))
            continue
        time, action, size, category = map(int, cells.groups())
        args = {"category": _CATEGORIES[category] if 0 <= category < len(_CATEGORIES) else category}
        if time < 0:
            rows.summary("alloc", _ACTIONS[action], id=place, metric="bytes", unit="B", value=float(size), args=args)
        else:
            rows.event("alloc", _ACTIONS[action], id=place, ts=time, bytes=size, args=args)
        report.used()
        used += 1
        yield from rows.ready()
    yield from rows.rest()
    if not used:
        raise DamagedInput("has no rows", path=source.path, expected="[time, action, bytes, category] in a list")
    if not ended:
        report.issue("cut", "the end", "the list isn't closed", 0)


def read_memory_by_category(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a counter for each time and category, without categories that are always 0.

    Raises DamagedInput if times and sizes don't match.
    """
    rows, report = RowBuilder(conversion, first_id=0), conversion.report
    text = whole_document(source, report)
    try:
        times, sizes = msgspec.convert(decode_mended(text, report), tuple[list[Any], list[Any]])
    except NOT_JSON as error:
        raise DamagedInput(str(error), path=source.path, expected="[times, sizes by category]") from None
    given = [
        row if (isinstance(row, list) and all(as_int64(size) is not None for size in row)) else None for row in sizes
    ]
    widths = {len(row) for row in given if row is not None}
    if len(times) != len(sizes) or len(widths) != 1 or not min(widths):
        problem = f"has {len(times):,} times and {len(sizes):,} rows of {sorted(widths)} sizes"
        raise DamagedInput(problem, path=source.path, expected="one row of sizes for each time, all of one length")
    used = [column for column in range(1, min(widths)) if any(row[column] for row in given if row is not None)]
    for number, (time, row) in enumerate(zip(times, given, strict=True), 1):
        report.record()
        if as_int64(time, -_LATEST, _LATEST) is None or row is None or row[0]:
            report.issue("bad-record", f"row {number}", f"time {shown(time)}, sizes {shown(sizes[number - 1])}")
            continue
        for column in used:
            name = _CATEGORIES[column - 1] if column <= len(_CATEGORIES) else f"category {column - 1}"
            rows.event("counter", name, ts=1000 * time, value=float(row[column]), unit="B", track="memory")
        report.used()
        yield from rows.ready()
    yield from rows.rest()


def _row_texts(source: Source, account: ByteAccount) -> Iterator[tuple[int, bytes]]:
    """Yields (byte offset, text) of each element, a flat list without its brackets; (-1, b"") after the last one."""
    with source.open() as stream:
        text = stream.read(_CHUNK)
        at = text.find(b"[") + 1
        start, ended = 0, False
        account.own("structure", at)
        while True:
            blank = _BLANK.match(text, at)
            account.own("structure", (blank.end() if blank else at) - at)
            at = blank.end() if blank else at
            row = _ROW.match(text, at) or _OTHER.match(text, at)
            if (not row or row.re is not _ROW) and len(text) - at < _LONGEST_ROW:
                more = stream.read(_CHUNK)
                if more:
                    account.size += at
                    start, text, at = start + at, text[at:] + more, 0
                    continue
            if not row:
                break
            ended = row[0] == b"]"
            if ended:
                account.own("structure", 1)
            elif row.re is _ROW:
                account.own("read", row.end() - at)
                yield start + at, row[1]
            else:
                account.skip(start + at, start + row.end())
                yield start + at, row[0]
            at = row.end()
        account.size += len(text)
        if ended:
            yield -1, b""
