"""Recognises an execution trace by its list of nodes with record-function ids."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: Bytes of the head that are examined: the members before the nodes, and the first nodes.
_EXAMINED = 1 << 16

_SCHEMA = re.compile(rb'"schema"\s*:\s*"([^"\\]{1,40})"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list of nodes with PyTorch's own keys."""
    head = sample.head[:_EXAMINED]
    if head[:32].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or b'"rf_id"' not in head or b'"nodes"' not in head:
        return None
    if b'"ctrl_deps"' not in head and b'"fw_parent"' not in head:
        return None
    schema = _SCHEMA.search(head)
    named = f"schema {schema[1].decode('ascii', 'replace')}" if schema else "no schema in its head"
    return Match(Score.DIALECT, f"has nodes with record-function ids, as an execution trace of PyTorch has ({named})")
