"""Turns the samples of a profile into samples of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.trace_json.repair import decode_whole
from ktrace.kit.v8 import CpuProfiles, Piece
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a sample for each of the profile. Raises DamagedInput for anything but a whole profile."""
    profile = _document(source, conversion)
    rows = RowBuilder(conversion)
    start, end = (value if type(value := profile.get(key)) is int else None for key in ("startTime", "endTime"))
    rows.fact("source", facts={"tool": "V8"})
    rows.fact("clock", facts={"kind": "monotonic"})
    piece = Piece(rows.reserve() + 1, "samples", profile["nodes"], profile.get("samples"), profile.get("timeDeltas"))
    for _ in CpuProfiles(rows, conversion.report).add([piece], start or 0, end, {"track": "samples"}):
        yield from rows.ready()
    yield from rows.rest()


def _document(source: Source, conversion: Conversion) -> dict[str, Any]:
    damaged = partial(
        DamagedInput,
        path=source.path,
        expected='an object with "nodes", "samples" and "timeDeltas"',
        remedy="let the profiler write it again, to its end",
    )
    profile = decode_whole(source, conversion.report, damaged)
    if not isinstance(profile, dict) or not isinstance(profile.get("nodes"), list):
        raise damaged("has no list of nodes")
    return profile
