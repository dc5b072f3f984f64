"""CPU profiles of V8: `node --cpu-prof`, the profiler of Chrome's DevTools, deno and others.

    {"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},
     "hitCount":0,"children":[2]}, ...],"startTime":500,"endTime":900,"samples":[2,2,1],"timeDeltas":[100,125,125]}

Profiles within a trace (`Profile`, `ProfileChunk`) are read with that trace.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

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


FORMAT = Format(
    "cpuprofile",
    "CPU profiles of V8: Node.js, Chrome",
    patterns=("*.cpuprofile",),
    probe=probe,
    read="ktrace.converters.cpuprofile.reader:read",
    words=('"callframe"',),
)
