"""Who waits for whom: synchronisations, and arrows from what is waited for to what waits.

api   cudaEventRecord        correlation 32                                 ─┐ wait, key "32"
sync  Stream Wait Event      stream 24, correlation 1389, on_stream 20     ◄─┘
op    aten::linear           thread 4242                                    ─┐ fwdbwd, key "43"
op    AddmmBackward0         thread 4300                                   ◄─┘
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.columns import StoredColumns, StoredRows, source_of
from ktrace.analysis.work.shapes import Shapes
from ktrace.model.arrays import Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import words_in
from ktrace.store.events import values
from ktrace.store.spill import Spill

#: The kinds of arrows that are kept.
LINKS = ("wait", "event", "fwdbwd")

#: The columns of arrows that are kept.
_LINK_COLUMNS = ("link", "key", "role", "event", "host", "pid", "tid", "stream")

#: The argument with the stream of the event that a synchronisation waits for (libkineto, CuptiActivity.cpp).
_ON_STREAM = "wait_on_stream"

#: An unknown stream.
UNKNOWN = -1


class Waits:
    """Synchronisations on devices, and arrows of waits and from forward to backward operators.

    `of(source)` has the columns ts, dur (0 without an end), id, correlation (0: none), `shape`, an index of `shapes`:
    track and name, and `on_stream`, the stream of the event that is waited for.
    """

    def __init__(self, spill: Spill) -> None:
        self._shapes = Shapes((*TRACK_COLUMNS, "name"))
        self._links = StoredRows(spill, "waits.links")
        self._rows = StoredColumns(
            spill, "waits", ts="i8", dur="i8", id="i8", correlation="i8", on_stream="i8", shape="i4"
        )

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """The track and the name of synchronisations, by number."""
        return self._shapes.all()

    def of(self, source: str) -> dict[str, Any]:
        """The synchronisations of a source, as columns."""
        return self._rows.of(source)

    def links(self, source: str) -> Iterator[pa.RecordBatch]:
        """The arrows of a source: link, key, role, event and the place, as far as the source has them."""
        return self._links.of(source)

    def add(self, batch: Batch) -> None:
        """Adds the synchronisations, or the arrows, of a batch of one source."""
        if batch.record == "links":
            mine = words_in(batch.column("link"), LINKS)
            if mine.any():
                there = [name for name in _LINK_COLUMNS if batch.has(name)]
                self._links.add(source_of(batch), batch.columns.select(there).filter(pa.array(mine)))
            return
        rows = np.flatnonzero(words_in(batch.column("kind"), ("sync",)))
        if len(rows):
            dur, known = values(batch.columns, "dur")
            correlation, _ = values(batch.columns, "correlation")
            self._rows.add(
                source_of(batch),
                ts=batch.column("ts").to_numpy()[rows],
                dur=np.where(known & (dur > 0), dur, 0)[rows],
                id=batch.column("id").to_numpy()[rows],
                correlation=correlation[rows],
                on_stream=_on_stream(batch, rows),
                shape=self._shapes.number(batch, rows),
            )


def _on_stream(batch: Batch, rows: Int64) -> Int64:
    """The stream of the event that each row waits for."""
    at, name = pa.array(rows), f"args.{_ON_STREAM}"
    if batch.has(name):
        found = batch.column(name).take(at)
    elif batch.has("args"):
        texts = decoded(batch.column("args").take(at)).cast(pa.string())
        found = pc.struct_field(pc.extract_regex(texts, f'"{_ON_STREAM}": ?(?P<stream>[0-9]{{1,9}})\\b'), "stream")
    else:
        return np.full(len(rows), UNKNOWN, np.int64)
    streams: Int64 = _integers(found).to_numpy()
    return streams


def _integers(column: pa.Array) -> pa.Array:
    """Whole numbers of a column, UNKNOWN where it has others."""
    if pa.types.is_dictionary(column.type) or pa.types.is_binary(column.type):
        column = decoded(column).cast(pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.if_else(pc.match_substring_regex(column, r"^[0-9]{1,9}$"), column, None)
    elif not pa.types.is_integer(column.type):
        column = pa.nulls(len(column), pa.int64())
    return pc.fill_null(column.cast(pa.int64()), UNKNOWN)
