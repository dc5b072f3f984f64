"""Perfetto traces as text: what `protoc --decode=perfetto.protos.Trace` prints, and the form of Perfetto's own tests.

packet {
  timestamp: 1000
  trusted_packet_sequence_id: 1
  track_event { type: TYPE_INSTANT track_uuid: 1 name: "mark" }
}
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_PACKET = re.compile(r"(?:\s|#[^\n]*(?:\n|\Z))*packet\s*:?\s*[{<]")

#: Members of packets, of which a trace has some.
_MEMBERS = re.compile(
    r"[\s{<](?:(?:timestamp|trusted_packet_sequence_id|trusted_uid)\s*:|(?:track_event|clock_snapshot|ftrace_events)\s*[:{<])"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a text that begins with a packet."""
    text = sample.text or ""
    if _PACKET.match(text) and _MEMBERS.search(text):
        return Match(Score.DIALECT, "begins with a packet of a Perfetto trace as text")
    return None


FORMAT = Format(
    "perfetto-text",
    "Perfetto traces as text (textproto)",
    patterns=("*.textproto", "*.pbtxt"),
    probe=probe,
    via="perfetto",
    export="ktrace.converters.perfetto_text.export:exported",
    prose=True,
    words=("packet",),
)
