"""Reads a snapshot that torch.cuda.memory._dump_snapshot_sqlite() wrote: the same dicts as rows of three tables.

device_traces   id, device, action, addr, size, stream, time_us, frames     '[{"name": "forward", "filename": ...}]'
segments        id, device, address, total_size, stream, segment_type
blocks          id, segment_id, address, size, requested_size, state, frames
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.torch import MOST_MEMORY
from ktrace.model.json_text import NOT_JSON
from ktrace.report import Report

_TABLES = ("device_traces", "segments", "blocks")

#: Rows that are fetched at once, about how many bytes one takes, and how many a byte of the text of a stack.
_ROWS, _ROW, _TEXT = 1 << 14, 400, 8

#: Sizes of a segment that its blocks tell, and the states of the blocks.
_OF_BLOCKS = {
    "allocated_size": ("active_allocated",),
    "active_size": ("active_allocated", "active_awaiting_free", "active_pending_free"),
}


def read_database(source: Source, conversion: Conversion, remedy: str) -> dict[str, Any]:
    """Returns the snapshot as the dicts of a pickle; `device_traces` has a list for each device that has any.

    Raises DamagedInput for an unreadable database, and for one whose rows need too much memory.
    """
    with opened(source, conversion) as database:
        reading = _Reading(database, source.path, remedy, conversion.report)
        traces: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for entry in reading.rows("device_traces"):
            device = entry.pop("device", 0)
            traces[device if type(device) is int and 0 <= device < 1 << 31 else 0].append(entry)
        blocks: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for block in reading.rows("blocks"):
            blocks[block.pop("segment_id", None)].append(block)
        segments = []
        for segment in reading.rows("segments", id_="id"):
            blocks_of_segment = segment["blocks"] = blocks.pop(segment.pop("id"), [])
            segments.append(_sizes(blocks_of_segment) | segment)
        database.report_others(_TABLES)
    lost = [block for several in blocks.values() for block in several]  # of segments that aren't there
    if lost:
        segments.append({"total_size": sum(_size(one) for one in lost), "blocks": lost} | _sizes(lost))
    return {"segments": segments, "device_traces": traces}


class _Reading:
    """Rows as dicts, with stacks decoded; equal stacks are the same list."""

    def __init__(self, database: Database, path: str, remedy: str, report: Report) -> None:
        self._database, self._path, self._remedy, self._report = database, path, remedy, report
        self._stacks: dict[str, Any] = {}
        self._used = 0

    def rows(self, table: str, id_: str = "") -> Iterator[dict[str, Any]]:
        """Yields the rows of a table in the order of their ids, with the column `id_`."""
        name = next((one for one in self._database.tables if one.casefold() == table), None)
        if name is None:
            return
        columns = [one for one in self._database.tables[name] if one.casefold() != "id" or id_]
        columns_sql = ", ".join(map(quoted_name, columns))
        last: int | None = None
        while True:
            after = "" if last is None else f" WHERE _rowid_ > {last}"
            sql = f"SELECT _rowid_, {columns_sql} FROM {quoted_name(name)}{after} ORDER BY _rowid_ LIMIT {_ROWS}"
            records = self._database.query(name, sql)
            for _, *values in records:
                self._use(_ROW)
                row = {key.casefold(): value for key, value in zip(columns, values, strict=True) if value is not None}
                if "frames" in row:
                    row["frames"] = self._stack(row["frames"], name)
                yield row
            if len(records) < _ROWS:
                return
            last = records[-1][0]

    def _stack(self, text: Any, table: str) -> Any:
        """The frames in a text; None where it has none."""
        if not isinstance(text, str | bytes):
            return None
        text = text if isinstance(text, str) else text.decode("utf-8", "replace")
        if text not in self._stacks:
            self._use(_TEXT * len(text))
            try:
                frames = msgspec.json.decode(text)
            except NOT_JSON:
                self._report.issue("unknown-field", table, "a stack that isn't JSON")
                frames = None
            self._stacks[text] = frames if isinstance(frames, list) else None
        return self._stacks[text]

    def _use(self, size: int) -> None:
        self._used += size
        if self._used > MOST_MEMORY:
            what = f"its rows need more than {MOST_MEMORY >> 20:,} MiB of memory"
            raise DamagedInput(what, path=self._path, expected="a smaller snapshot", remedy=self._remedy)


def _sizes(blocks: list[dict[str, Any]]) -> dict[str, int]:
    """The sizes of a segment that its blocks tell."""
    return {key: sum(_size(one) for one in blocks if one.get("state") in states) for key, states in _OF_BLOCKS.items()}


def _size(block: dict[str, Any]) -> int:
    size = block.get("size")
    return size if type(size) is int else 0
