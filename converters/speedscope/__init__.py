"""speedscope's own JSON (github jlfwong/speedscope, file format schema version 0.0.1): an evented profile per track.

    {"$schema":"https://www.speedscope.app/file-format-schema.json","name":"run","profiles":[
     {"type":"evented","name":"python3 / thread 4242","unit":"nanoseconds","startValue":0,"endValue":900,"events":[
      {"type":"O","frame":0,"at":10},{"type":"C","frame":0,"at":50}]}],
     "shared":{"frames":[{"name":"aten::mm"}]}}

Begins and ends must nest: slices that overlap without nesting are in a profile of their own, a lane of the track.
"""

from __future__ import annotations

from ktrace.kit import Format

FORMAT = Format(
    "speedscope",
    "speedscope profiles, one for each track",
    patterns=("*.speedscope.json",),
    writer="ktrace.converters.speedscope.writer:Writer",
    timeline=True,
)
