"""Stacks as PyTorch's dumps have them: dicts of name, filename, line, the innermost first.

The members of a dump that PyTorch writes as one dict: what a reader doesn't know is noted.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from ktrace.kit import stacks
from ktrace.model.fitting import shown
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: Frames of a stack that are kept, the innermost ones.
_MOST_FRAMES = 128


class Stacks:
    """Gives each distinct stack a key, and adds its fact."""

    def __init__(self, rows: RowBuilder) -> None:
        self._facts = stacks.Stacks(rows)
        self._by_list: dict[int, tuple[Any, str | None]] = {}

    def key(self, frames: Any) -> str | None:
        """The key of a list of frames, the innermost first; None if it has none."""
        if not frames or type(frames) not in (list, tuple):
            return None
        known = self._by_list.get(id(frames))
        if known is None:
            key = self._facts.key(tuple(map(_text, reversed(frames[:_MOST_FRAMES]))))
            known = self._by_list[id(frames)] = frames, key  # keeps the list, so that no other gets its id
        return known[1]

    def name(self, frames: Any) -> str:
        """The innermost frame in Python, else the innermost one; '' without frames."""
        texts = [_text(frame) for frame in frames[:_MOST_FRAMES]] if type(frames) in (list, tuple) else []
        return next((text for text in texts if ".py:" in text), texts[0] if texts else "")


def _text(frame: Any) -> str:
    """A frame as text: forward (model.py:7)."""
    if type(frame) is not dict:
        return "?"
    name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
    name = name if type(name) is str and name else "?"
    return stacks.frame_text(name, file if type(line) is int else None, line)[:1000]


def note_unknown_members(dump: dict[Any, Any], known: AbstractSet[str], report: Report) -> None:
    """Notes each member that isn't known: it was parsed with the rest, and no row comes from it."""
    for key in dump:
        if key not in known:
            report.issue("unknown-field", "top level", shown(key))
