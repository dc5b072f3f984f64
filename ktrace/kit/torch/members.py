"""The members of a dump that PyTorch writes as one dict: what a reader doesn't know is noted."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from ktrace.model.fitting import shown
from ktrace.report import Report


def note_unknown_members(dump: dict[Any, Any], known: AbstractSet[str], report: Report) -> None:
    """Notes each member that isn't known: it was parsed with the rest, and no row comes from it."""
    for key in dump:
        if key not in known:
            report.issue("unknown-field", "top level", shown(key))
