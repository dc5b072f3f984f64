"""Where the rows of the layer's queues belong."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.intel.names import Work, intercepted
from ktrace.kit.intel.tracks import Place
from ktrace.model.batch import Batch

_STAGE = re.compile(r" \((Queued|Submitted|Execution)\)$")
_DOT = re.compile(r"(\d{1,9})\.(\d{1,9})")


def place(name: str, tid: int | None, track: str | None) -> Place:
    """Returns the place of a row: the stages before the execution are ranges."""
    stage = _STAGE.search(name)
    dot = _DOT.fullmatch(track or "")
    stream = -tid if tid is not None and tid < 0 else int(dot[2 if stage else 1]) if dot else None
    if stage and stage[1] != "Execution":
        return Place(Work("range", name), stream, waits=True)
    return Place(intercepted(name[: stage.start()] if stage else name), stream, waits=False)


def without_tracks(batch: Batch) -> Batch:
    """Returns a catalog without the tracks of queues, which the reader adds as streams."""
    names = batch.column("track").cast(pa.string())
    queue = pc.fill_null(pc.match_substring_regex(names, r"^\d+\.1$"), False)
    old = pc.fill_null(pc.less(batch.column("tid"), 0), False)
    return Batch(batch.record, batch.columns.filter(pc.invert(pc.or_(queue, old))))
