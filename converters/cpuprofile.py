"""CPU profiles of V8: `node --cpu-prof`, the profiler of Chrome's DevTools, deno and others.

    {"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},
     "hitCount":0,"children":[2]}, ...],"startTime":500,"endTime":900,"samples":[2,2,1],"timeDeltas":[100,125,125]}

Samples of a thread. Profiles within a trace (`Profile`, `ProfileChunk`) are read with that trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.trace_json.salvage import decode_whole
from ktrace.kit.v8 import CpuProfiles, Piece
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_NODE = re.compile(rb'"callFrame"\s*:\s*\{')
_MEMBERS = (b'"nodes"', b'"samples"', b'"timeDeltas"', b'"startTime"', b'"endTime"')

#: The first bytes, in which a document has its first members.
_HEAD = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object with nodes and at its beginning or end a further member of a profile."""
    head = sample.head[:_HEAD]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or not _NODE.search(sample.head) or b'"traceEvents"' in head:
        return None
    if b'"selfSize"' in head or b'"ph"' in head:
        return None
    if sum(member in sample.head or member in sample.tail for member in _MEMBERS) >= 2:
        return Match(Score.DIALECT, "has the nodes of a CPU profile of V8")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a sample for each of the profile. Raises DamagedInput for anything but a whole profile."""
    profile = _document(source, conversion)
    rows = RowBuilder(conversion)
    start, end = (value if type(value := profile.get(key)) is int else None for key in ("startTime", "endTime"))
    rows.tool_and_clock("V8", "monotonic")
    piece = Piece(rows.reserve() + 1, "samples", profile["nodes"], profile.get("samples"), profile.get("timeDeltas"))
    for _ in CpuProfiles(rows, conversion.report).add([piece], start or 0, end, {"track": "samples"}):
        yield from rows.ready()
    yield from rows.rest()


def _document(source: Source, conversion: Conversion) -> dict[str, Any]:
    damaged = partial(
        DamagedInput,
        path=source.path,
        expected='an object with "nodes", "samples" and "timeDeltas"',
        remedy="record it again, and let the profiler finish writing",
    )
    profile = decode_whole(source, conversion.report, damaged)
    if not isinstance(profile, dict) or not isinstance(profile.get("nodes"), list):
        raise damaged("has no list of nodes")
    return profile


FORMAT = Format(
    "cpuprofile",
    "CPU profiles of V8: Node.js, Chrome",
    patterns=("*.cpuprofile",),
    probe=probe,
    read=read,
    words=('"callframe"',),
    document=True,
    holds="whole",
)
