"""Ranges by which a big file can be read: those of Trace Event JSON."""

from __future__ import annotations

from ktrace.converters._shared.trace_json.spans import spans

__all__ = ["spans"]
