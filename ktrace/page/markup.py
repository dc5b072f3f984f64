"""Elements of SVG, and the rule for every text on a page: it can only be a text.

    tag("rect", tag("title", "a < b"), class_="bar", width=3)
    ──►  <rect class="bar" width="3"><title>a &lt; b</title></rect>

Names come from other people's files. Whatever isn't `Markup` is made harmless, limited in length and escaped: here
and, by `bounded` as the templates' finalize function, in every expression of a template.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from ktrace.tables.figures import harmless

#: The longest text on a page, in characters.
LONGEST = 2000


def bounded(value: object) -> object:
    """Markup as it is; anything else as text of at most `LONGEST` characters without control characters."""
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    lines = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return "\n".join(map(harmless, lines.split("\n")))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; a child may be a list of children. In names of attributes `_` becomes `-`."""
    opening = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(bounded(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{opening}>{_joined(children)}</{name}>")


def _joined(children: object) -> Markup:
    if isinstance(children, (list, tuple)):
        return Markup("").join(map(_joined, children))
    return escape(bounded(children))
