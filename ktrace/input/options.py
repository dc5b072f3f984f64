"""A field of a dataclass that is also an option of the commands: declared once, with all that is said of it.

    kinds: Sequence[str] = option((), "--kind", "KIND,...", "Only rows of these kinds: kernel, memcpy, op, ...")

From it come the option of the commands (`ktrace.cli._options`), the entry under "Parameters" in the documentation of
the class (`documented`), and a row of the tables in docs/commands (`docs/generate.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import Field, field, fields
from typing import Any, TypeVar

import msgspec

_Class = TypeVar("_Class", bound=type)

_WIDTH = 112


class Option(msgspec.Struct, frozen=True):
    """How a field is given on a command line, and what is said of it.

    A field without a `flag` isn't an option by itself, such as the crop, whose own fields are options.
    """

    flag: str
    metavar: str  #: "" for a switch; "KIND,..." for a list
    help: str  #: sentences for `--help`, which name other options as --kind
    more: str = ""  #: further sentences for Python and docs
    link: str = ""  #: Markdown for docs: where to read on
    words: str = ""  #: "module:name" of the words that complete it: a sequence, or a function that returns pairs
    least: int = 1  #: of a whole number
    repeatable: bool = False  #: given several times: a list, or one text joined by commas

    @property
    def is_list(self) -> bool:
        """Whether its text is a list: `kernel,memcpy`."""
        return self.metavar.endswith(",...") and not self.repeatable


def option(default: Any, flag: str, metavar: str, help: str, **more: Any) -> Any:
    """Returns a dataclass field with this default that is an option, see `Option`."""
    return field(default=default, metadata={"option": Option(flag, metavar, help, **more)})


def options_of(cls: type) -> Iterator[tuple[Field[Any], Option]]:
    """Yields the fields of a dataclass that were declared with `option`."""
    for one in fields(cls):
        if "option" in one.metadata:
            yield one, one.metadata["option"]


def documented(cls: _Class) -> _Class:
    """Puts the section "Parameters" in place of `{parameters}` in the docstring of a dataclass."""
    from inspect import cleandoc

    if cls.__doc__:
        entries = "\n".join(_entry(one, its) for one, its in options_of(cls))
        cls.__doc__ = cleandoc(cls.__doc__).replace("{parameters}", f"Parameters\n----------\n{entries}")
    return cls


def _entry(one: Field[Any], its: Option) -> str:
    from textwrap import indent, wrap

    text = re.sub(r"--([a-z-]+)", lambda match: keyword(match[1]), f"{its.help} {its.more}".strip())
    kind = str(one.type).replace(" | None", ", optional")
    return f"{one.name} : {kind}\n" + indent("\n".join(wrap(text, _WIDTH)), " " * 4)


def keyword(word: str) -> str:
    """Returns the keyword of an option in Python: `launch_skip` for --launch-skip."""
    return f"`{word.replace('-', '_')}`"
