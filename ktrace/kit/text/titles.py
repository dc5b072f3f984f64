"""Titles above tables, and lines without words.

## Decode              Markdown
=== Decode ===         a banner
 ** Kernels (sum):     what nsys prints
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .layouts import BOX

_DRAWN = re.compile(rf"[-=*_~#+|:{BOX}\s]{{3,}}")
_MARKUP = re.compile(r"(?:```|~~~)\s*\w*|</?\w[^<>]*>")
_MARKDOWN = re.compile(r"\s{0,3}(#{1,6})\s")
_BANNER = re.compile(r"(={2,3})\s*[^=\s]")
_BANNER_END = re.compile(r"={2,3}$")


@dataclass(frozen=True, slots=True)
class Title:
    """A title in the text: its level (1 is outermost), its words, its line."""

    level: int
    text: str
    line: int


def title_of(number: int, line: str) -> Title | None:
    """Returns the title in a line, None if the line isn't a title."""
    text = line.strip()
    if found := _MARKDOWN.match(line):
        return Title(len(found.group(1)), line[found.end() :].strip().rstrip("#").rstrip(), number)
    if (found := _BANNER.match(text)) and (end := _BANNER_END.search(text[-3:])):
        words = text[len(found.group(1)) : len(text) - len(end.group())].strip()
        return Title(4 - len(found.group(1)), words, number) if words else None
    if text.startswith("**") and text.endswith(("**", "**:", ":")):
        words = text[2:].removesuffix(":").removesuffix("**").strip()
        return Title(7, words, number) if words and "*" not in words else None
    return None


def is_structure(text: str) -> bool:
    """Whether a line has no words: it is blank, drawn, a code fence or an HTML tag."""
    bare = text.strip()
    return not bare or _DRAWN.fullmatch(text) is not None or _MARKUP.fullmatch(bare) is not None
