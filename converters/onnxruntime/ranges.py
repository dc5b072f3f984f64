"""Byte ranges by which a big file can be read: those of Trace Event JSON."""

from __future__ import annotations

from ktrace.kit.trace_json.byte_ranges import ranges

from .reader import read

__all__ = ["ranges", "read"]
