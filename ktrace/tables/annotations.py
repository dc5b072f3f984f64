"""Annotations that a workflow of GitHub shows beside its log."""

from __future__ import annotations

from ktrace.tables import escape_controls


def annotation(command: str, message: str, **properties: object) -> str:
    """A workflow command of GitHub, with its own escapes; what else steers a terminal is made harmless.

    Source: docs.github.com, "Workflow commands for GitHub Actions"; the escapes are those of its toolkit (command.ts).
    """
    given = ",".join(f"{name}={_escaped(str(value), '%:,')}" for name, value in properties.items())
    return f"::{command} {given}::{_escaped(message, '%')}"


def _escaped(text: str, characters: str) -> str:
    """The text with line ends and these characters as %25 and the like."""
    kept = f"{characters}\r\n"
    return "".join(f"%{ord(one):02X}" if one in kept else escape_controls(one) for one in text)
