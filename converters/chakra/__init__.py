"""MLCommons Chakra execution traces as protobuf (.et): the nodes of a graph of operators and collectives.

    length, GlobalMetadata {version "0.0.4"}
    length, Node {id 1, name "aten::mm", type COMP_NODE, start 0 us, duration 80 us, attr [is_cpu_op false]}
    length, Node {id 5, name "nccl:all_reduce", type COMM_COLL_NODE, data_deps [4], ...}

Nodes are events at their start; in a trace all of whose starts are 0 they are sums, since nothing says when they ran.
Facts: schema/protobuf/et_def.proto and src/third_party/utils of mlcommons/chakra. Times are whole us.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.varint import varint_or_none

_BEGIN = re.compile(rb"[\x05-\x7f]\x0a[\x03-\x1f]\d{1,3}\.\d{1,3}\.\d{1,3}")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a version, and then a node, or the end of the file."""
    match = _BEGIN.match(sample.head)
    if not match:
        return None
    size = sample.head[0] + 1
    node, at = varint_or_none(sample.head, size)
    is_node = node is not None and sample.head[at : at + 1] in (b"\x08", b"\x12")
    is_chakra = is_node or (sample.whole and size == len(sample.head))
    return Match(Score.DIALECT, "begins with the version and a node of a Chakra trace") if is_chakra else None


FORMAT = Format(
    "chakra",
    "MLCommons Chakra execution traces as protobuf (.et)",
    patterns=("*.et",),
    probe=probe,
    read="ktrace.converters.chakra.reader:read",
    binary=True,
)
