"""Execution traces of PyTorch (Chakra ET, JSON): the operators of a run with their arguments, and no times.

    {"schema": "1.1.1-chakra.0.0.4", "pid": 77, "time": "2025-03-04 05:06:07", "start_ts": 9000, "nodes": [
      {"id": 5, "name": "aten::mm", "ctrl_deps": 3,
       "inputs": {"values": [[6,7,0,32,4,"cpu"], ...], "shapes": [[4,8],[8,2]], "types": [...], "strides": ...},
       "outputs": {...}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 12}, ...]}, ...], "finish_ts": 9100}

Schemas 1.0.0 and 1.0.1 have flat nodes: "parent", "rf_id", "inputs", "input_shapes", "input_types", ...
torch.profiler.ExecutionTraceObserver writes it (torch/csrc/profiler/standalone/execution_trace_observer.cpp): a node
when its operator returns, so that children come before their parents.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

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
    named = f"schema {schema[1].decode('ascii', 'replace')}" if schema else "no schema at its start"
    return Match(Score.DIALECT, f"has nodes with record-function ids, as an execution trace of PyTorch has ({named})")


FORMAT = Format(
    "execution-trace",
    "PyTorch execution trace (Chakra ET), operators without times",
    patterns=("*_et.json", "et.json", "execution_trace*.json"),
    probe=probe,
    read="ktrace.converters.execution_trace.reader:read",
    read_nodes="ktrace.converters.execution_trace.reader:read_nodes",
    words=('"rf_id"',),
    document=True,
)
