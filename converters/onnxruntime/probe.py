"""Recognises ONNX Runtime's profiles by their categories and the names of their first events."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

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
