"""Triton's profiler Proton: its tree (hatchet), its trace and its cycle trace (3.0 to 3.9).

run.hatchet
[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0, "time (ns)": 0}, "children": [
  {"frame": {"name": "matmul_kernel", ..}, "metrics": {"count": 3, "device_id": "0", "time (ns)": 4064}, ..}]},
 {"CUDA": {"0": {"arch": "90", "num_sms": 132, ..}}}]

run.chrome_trace, a document on each line
{"displayTimeUnit":"us","traceEvents":[{"args":{"call_stack":["ROOT","step","matmul_kernel"]},"cat":"kernel","dur":4.06,..
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: A tree as MessagePack: a list of one or two, a map of three, "frame".
_PACKED = re.compile(rb"[\x91\x92]\x83\xa5frame")
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\"(?:children|frame|metrics)\"\s*:")
_NODE = (b'"frame"', b'"metrics"', b'"children"')

#: All call stacks begin with the root.
_STACK = re.compile(rb'"call_stack"\s*:\s*\[\s*"ROOT"')

#: The first bytes, which have a stack and the members of a node, if there are any.
_HEAD = 1 << 18


def probe(sample: Sample) -> Match | None:
    """MAGIC for a tree as MessagePack, DIALECT for one as JSON, and for a trace."""
    head = sample.head
    if _PACKED.match(head):
        return Match(Score.MAGIC, "begins with a node of Proton's tree as MessagePack")
    if _LIST.match(head[:64]):
        whole = all(word in head or word in sample.tail for word in _NODE)
        return Match(Score.DIALECT, "is a tree of frames with metrics, as Proton writes it") if whole else None
    if head[:64].lstrip().startswith(b"{") and b'"traceEvents"' in head[:4096] and _STACK.search(head, 0, _HEAD):
        return Match(Score.DIALECT, "has events with the call stacks of Proton")
    return None


FORMAT = Format(
    "proton",
    "Triton Proton: tree (hatchet) as JSON or MessagePack, trace, cycle trace",
    patterns=("*.hatchet", "*.hatchet_msgpack", "*.chrome_trace"),
    probe=probe,
    read="ktrace.converters.proton.reader:read",
    document=True,
    holds="whole",
)
