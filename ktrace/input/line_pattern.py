"""Patterns of lines that users write: `{name} took {dur} ms on {device}`.

A placeholder names a field of a mapping; `{}` stands for anything, and a placeholder of another name is an argument.
What is between them stands in the line as it does here, whatever blanks are around it. The unit of a number is in the
placeholder (`{dur:ms}`), or the pattern has it behind the number, or the line does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\{(?P<name>[A-Za-z_]\w*)?(?::(?P<unit>[^{}]{1,8}))?\}")
_NUMBER = r"[+-]?(?:\d[\d.,'_]*|\.\d+)(?:[eE][+-]?\d+)?"
_UNIT = r"(?:\s?[A-Za-zµμ%]{1,4}(?![\w]))?"

#: The unit of starts that are dates and times.
DATE = "iso"

#: How units are spelled in lines -> what they are.
UNITS = {
    **{
        unit: unit
        for unit in ("s", "ms", "us", "µs", "μs", "ns", "ps", "B", "kB", "KB", "KiB", "MB", "MiB", "GB", "GiB")
    },
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    "bytes": "B",
}

#: A longer line has no pattern.
LONGEST = 1 << 14


class _Run(NamedTuple):
    """What follows the text of a placeholder: literals and numbers. `text` is the placeholder before it, if any."""

    text: str | None
    pattern: re.Pattern[str]


class LinePattern(NamedTuple):
    """A pattern of lines: its text, field -> its unit, '' where the line states it, and how lines are matched."""

    text: str
    fields: Mapping[str, str]
    runs: tuple[_Run, ...]

    def cells(self, line: str) -> dict[str, str] | None:
        """The cells of a line, numbers with their unit; None for a line of another form."""
        if len(line) > LONGEST:
            return None
        texts: dict[str, str] = {}
        at, line = 0, line.strip()
        for run in self.runs:
            match = run.pattern.match(line, at) if run.text is None else run.pattern.search(line, at + bool(run.text))
            if not match:
                return None
            if run.text:
                texts[run.text] = line[at : match.start()].strip()
            texts |= match.groupdict()
            at = match.end()
        units = {name: unit for name, unit in self.fields.items() if unit and unit != DATE}
        return {name: f"{cell} {units[name]}" if name in units else cell for name, cell in texts.items()}


def line_pattern(text: str, numbers: frozenset[str], aliases: Mapping[str, str]) -> LinePattern:
    """Returns the pattern that a text states; `numbers` are the fields whose cells are numbers.

    Raises ValueError, with the reason.
    """
    fields: dict[str, str] = {}
    runs: list[_Run] = []
    before: str | None = None
    at, pattern = 0, ""
    text = " ".join(text.split())
    for match in _PLACEHOLDER.finditer(text):
        pattern += _literal(text[at : match.start()])
        at = match.end()
        name = aliases.get(match["name"] or "", match["name"] or "")
        if name in fields:
            raise ValueError(f"{name} occurs twice")
        if name in numbers and match["unit"] != DATE:
            if before is not None and not pattern:
                raise ValueError("nothing separates two placeholders")
            behind = re.match(r"\s?[\[(]?([A-Za-zµμ]{1,12})(?!\w)", text[at:])
            stated = match["unit"] or (UNITS.get(behind[1], "") if behind else "")
            pattern += f"(?P<{name}>{_NUMBER}{'' if stated else _UNIT})"
            fields[name] = stated
            continue
        if match["unit"] not in (None, DATE) or (match["unit"] and name not in numbers):
            raise ValueError(f"{name} has a unit, but isn't a number")
        if pattern:
            runs.append(_Run(before, re.compile(pattern)))
        elif before is not None:
            raise ValueError("nothing separates two placeholders")
        before, pattern = name, ""
        if name:
            fields[name] = match["unit"] or ""
    runs.append(_Run(before, re.compile(pattern + _literal(text[at:]) + "$")))
    return LinePattern(text, fields, tuple(runs))


def _literal(text: str) -> str:
    """The expression for what stands between placeholders. Raises ValueError for a brace."""
    if "{" in text or "}" in text:
        raise ValueError("a brace isn't closed, or holds something else than the name of a field")
    blank = r"(?<!\s)\s+"
    words = blank.join(map(re.escape, text.split()))
    return (blank if text[:1] == " " else "") + words + (blank if text[-1:] == " " and words else "")
