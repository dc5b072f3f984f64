"""Profiles of ONNX Runtime (`SessionOptions.enable_profiling`): a list of trace events, an event a line.

    [
    {"cat" : "Session","pid" :12,"tid" :12,"dur" :485,"ts" :10,"ph" : "X","name" :"model_loading_uri","args" : {}},
    {"cat" : "Node","pid" :12,"tid" :19,"dur" :96,"ts" :3271,"ph" : "X","name" :"fc1_kernel_time","args" : {"provider" :
     "CPUExecutionProvider","op_name" : "Gemm","output_size" : "1024","input_type_shape" : [{"float":[4,32]}]}},
    {"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :41,"ts" :3290,"ph" : "X","name" :"void gemm<float>()","args" :
     {"stream" : "7","grid_x" : "12","parent_name" : "fc1_kernel_time"}}
    ]

Times are whole µs since the session began. Numbers among the arguments are texts. Names were written without escapes
until 1.28, so that a quote in a node's name breaks the JSON; the shared reader repairs that.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_CATEGORY = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"')
_NAME = re.compile(
    rb'"name"\s*:\s*"(?:model_loading_|session_initialization"|model_run"|\w*Executor::Execute"'
    rb'|[^\n]{1,400}?_(?:kernel_time|fence_before)",)'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for events of the categories Session or Node with one of ONNX Runtime's names."""
    head = sample.head[:65_536]
    if b'"cat"' not in head or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"[", b"{"):
        return None
    if _CATEGORY.search(head) and (found := _NAME.search(head)):
        name = found[0].decode(errors="replace").split(":", 1)[1].strip(' ",')
        return Match(Score.DIALECT, f"has ONNX Runtime's event '{name[:60]}'")
    return None


FORMAT = Format(
    "onnxruntime",
    "ONNX Runtime profiles",
    patterns=("onnxruntime_profile*.json",),
    probe=probe,
    read="ktrace.converters.onnxruntime.reader:read",
    ranges="ktrace.converters.onnxruntime.reader:ranges",
    read_range="ktrace.converters.onnxruntime.reader:read",
    words=('"cat"',),
)
