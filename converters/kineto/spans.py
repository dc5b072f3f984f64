"""The byte ranges in which workers read a big file: the same as for any Trace Event JSON."""

from __future__ import annotations

from ktrace.converters._shared.trace_json.spans import spans

__all__ = ["spans"]
