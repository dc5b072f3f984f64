"""speedscope's own JSON (github jlfwong/speedscope, src/lib/file-format-spec.ts), as py-spy, rbspy and others write it.

    {"$schema":"https://www.speedscope.app/file-format-schema.json","name":"run","exporter":"py-spy@0.4.1","profiles":[
     {"type":"evented","name":"python3 / thread 4242","unit":"nanoseconds","startValue":0,"endValue":900,"events":[
      {"type":"O","frame":0,"at":10},{"type":"C","frame":0,"at":50}]},
     {"type":"sampled","name":"Thread 4242 \\"MainThread\\"","unit":"seconds","startValue":0,"endValue":0.01,
      "samples":[[0,1]],"weights":[0.01]}],
     "shared":{"frames":[{"name":"aten::mm","file":"model.py","line":7},{"name":"gemm"}]}}

A profile is a thread or a track. Events of ktrace's own profiles nest: slices that overlap without nesting are in a
profile of their own, a lane of the track.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_SCHEMA = b"speedscope.app/file-format-schema"
_MEMBERS = (b'"profiles"', b'"shared"', b'"frames"')


def probe(sample: Sample) -> Match | None:
    """MAGIC for a document with the schema's address, which is at its beginning or its end."""
    if sample.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    if _SCHEMA not in sample.head and _SCHEMA not in sample.tail:
        return None
    if any(member in sample.head or member in sample.tail for member in _MEMBERS):
        return Match(Score.MAGIC, "names speedscope's schema")
    return None


FORMAT = Format(
    "speedscope",
    "speedscope profiles: py-spy, rbspy, austin",
    patterns=("*.speedscope.json",),
    probe=probe,
    read="ktrace.converters.speedscope.reader:read",
    writer="ktrace.converters.speedscope.writer:Writer",
    timeline=True,
    words=("speedscope.app",),
)
