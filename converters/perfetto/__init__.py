"""Perfetto traces: the protobuf of ui.perfetto.dev, version 52 and later.

A file is a row of packets. Each packet belongs to a sequence, whose first packet clears the incremental state and whose
later packets need it:

    packet { sequence 1, first, cleared    track_descriptor { uuid 2, process { pid 4242 "python3" } } }
    packet { sequence 1, needs state       interned_data { event_names { iid 1 "ampere_sgemm_128x64_tn" } } }
    packet { timestamp 1000  track_event { SLICE_BEGIN, track 3, name 1, debug_annotations { "grid" ... } } }
    packet { sequence 2, timestamp 1200  gpu_render_stage_event { event_id 9, duration 40, kernel 1, launch { ... } } }

reader    packets -> batches
writer    timeline -> packets
about     what the GPU Compute tab of the viewer shows of a trace
wire      varints, tags and fields as bytes
sidecar   what Perfetto has no field for, so that a trace that ktrace wrote can be read back
writing/  the messages, a batch at a time
reading/  the rows, some thousand packets at a time
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.varint import varint_or_none

_PACKET = 0x0A

#: A text that begins with blank lines: a packet of ten bytes has a tag below 32 among them.
_TEXT = re.compile(rb"\n[\t\r ]*\n[\t\n\r -~\x80-\xff]{10}")

#: The probe checks at most this many packets.
_ENOUGH = 8

#: Nearly every packet has one of these: timestamp, sequence id, flags, trusted uid, and the first fields of a trace.
_COMMON = {1, 2, 3, 6, 8, 10, 11, 12, 13, 33, 36, 43, 44, 50, 52, 53, 58, 59, 60, 79, 87, 89, 98, 128, 133, 900}

#: Fields that are messages in a packet (ftrace_events, process_tree, inode_file_map, chrome_events, clock_snapshot,
#: sys_stats). In the planes of an XPlane file the first two are a number and a text.
_MESSAGES = {1, 2, 4, 5, 6, 7}


def probe(sample: Sample) -> Match | None:
    """Returns MAGIC if the file begins with whole packets of known fields only, DIALECT if the only one is cut off."""
    head = sample.head
    if sample.listing is not None or not head or head[0] != _PACKET or _TEXT.match(head):
        return None
    at = seen = 0
    while at < len(head) and seen < _ENOUGH:
        size, begin = varint_or_none(head, at + 1)
        if head[at] != _PACKET or size is None:
            break
        fields = _fields(head, begin, min(begin + size, len(head)))
        if fields is None or not fields & _COMMON:
            break
        if begin + size > len(head):
            what = "a packet of a Perfetto trace, cut off" if sample.whole else "a large packet of a Perfetto trace"
            return Match(Score.MAGIC if seen else Score.DIALECT, f"begins with {what}")
        at, seen = begin + size, seen + 1
    if not seen:
        return None
    sure = seen > 1 or at == len(head)
    return Match(Score.MAGIC if sure else Score.DIALECT, "begins with packets of a Perfetto trace")


def _is_message(data: bytes, at: int, end: int) -> bool:
    """Whether the bytes begin with the tag of a field, or are empty."""
    tag, _ = varint_or_none(data, at)
    return at >= end or tag is None or (tag >= 8 and tag & 7 in (0, 1, 2, 5))


def _is_resource(data: bytes, at: int, field: int) -> bool:
    """Whether the message is an attribute or a span of OpenTelemetry, where a packet has a number.

    Field 1 of ftrace_events is the cpu; field 1 of the processes and threads in process_tree is their id.
    """
    if field == 1:
        return data[at : at + 1] == b"\x0a"
    if data[at : at + 1] not in (b"\x0a", b"\x12"):
        return False
    _, inside = varint_or_none(data, at + 1)
    return data[inside : inside + 1] == b"\x0a"


def _fields(data: bytes, at: int, end: int) -> set[int] | None:
    """Returns the field numbers of a packet, as far as its bytes are there; None if it isn't a packet."""
    numbers: set[int] = set()
    while at < end:
        tag, at = varint_or_none(data, at)
        if tag is None:
            break
        numbers.add(tag >> 3)
        wire = tag & 7
        if tag < 8 or wire not in (0, 1, 2, 5) or (tag >> 3 in _MESSAGES and wire != 2):
            return None
        if wire == 0:
            value, at = varint_or_none(data, at)
            if value is None and at < end:
                return None
        elif wire == 2:
            size, at = varint_or_none(data, at)
            if size is None:
                break
            if tag >> 3 in _MESSAGES and not _is_message(data, at, min(at + size, end)):
                return None
            if tag >> 3 in (1, 2) and _is_resource(data, at, tag >> 3):
                return None
            at += size
        else:
            at += 8 if wire == 1 else 4
    return numbers if at <= end or end == len(data) else None


FORMAT = Format(
    "perfetto",
    "Perfetto trace",
    patterns=("*.perfetto", "*.pftrace", "*.perfetto-trace"),
    probe=probe,
    read="ktrace.converters.perfetto.reader:read",
    writer="ktrace.converters.perfetto.writer:Writer",
    timeline=True,
    overlap=True,
    about="ktrace.converters.perfetto.about:about",
    binary=True,
)
