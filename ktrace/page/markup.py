"""Elements of HTML and SVG in which a text can only be a text.

    tag("li", "a < b", tag("b", 3), class_="name", data_value=3)
    ──►  <li class="name" data-value="3">a &lt; b<b>3</b></li>

What is no `Markup` is escaped, so that names out of other people's files show as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ktrace.tables.figures import harmless

#: Letters of a name that a page has at most.
LONGEST = 2000

_VOID = frozenset({"meta", "link", "input", "br"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Attributes that are None are left out, True stands without a value; `_` becomes `-`."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Markup:
    """The children one after the other; lists of children are theirs."""
    return Markup("".join(_child(child) for child in children))


def _child(child: object) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, (list, tuple)):
        return joined(child)
    return "" if child is None else escape(_bounded(str(child)))


def _attribute(key: str, value: object) -> str:
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(_bounded(str(value)), quote=True)}"'


def _bounded(text: str) -> str:
    lines = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return "\n".join(map(harmless, lines.split("\n")))
