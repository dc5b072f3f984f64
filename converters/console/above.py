"""What lines mean by the lines around them: a unit stated above bare numbers, an object that is printed over lines.

Kernel times (us):            matmul: 12.5 us
  matmul: 12.5
  softmax 3.5                 softmax: 3.5 us
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ktrace.kit.text.measured import is_measured

from .durations import NUMBER, STATISTIC, UNITS, in_seconds, is_no_time
from .records import open_brackets, opens_record

#: The most lines and characters of an object that is printed over lines.
_MOST_LINES, _MOST = 400, 1 << 15

_HEAD = re.compile(
    r"[-#*=\s]{0,9}(?P<words>(?:[A-Za-z][\w/-]{0,30} ){0,5}(?:times?|timings?|durations?|latency|latencies|runtimes?)"
    rf"(?: (?:are|is|per|of|for|each|by|all|kernel|op|layer|call)){{0,3}}) ?(?:in |[(\[](?:in )?)"
    rf"(?P<unit>{UNITS})[)\]]?\s?:?[-#*=\s]{{0,9}}",
    re.IGNORECASE,
)
_MEMBER = re.compile(
    rf"(?P<start>\s{{0,40}}(?:[-*•] )?)(?P<label>[A-Za-z_][^\s:=|]{{0,199}}(?: [^\s:=|]{{1,40}}){{0,5}}?)"
    rf"(?:\s{{0,20}}[:=|]\s{{0,40}}|\s{{1,60}})(?P<number>{NUMBER}),?\s{{0,9}}"
)
#: A sentence above them that states it: `These are the times (in seconds) in a step:`.
_SENTENCE = re.compile(
    r"(?i)(?=.*\b(?:times?|timings?|durations?|latency|latencies|runtimes?|performance|results?|breakdown|profile)\b)"
    rf".*?(?:\bin (?P<unit>{UNITS}|(?:micro|milli|nano) ?sec(?:ond)?s?)\b|[(\[](?:in )?(?P<also>{UNITS})[)\]])"
    r".{0,80}:\s{0,9}"
)
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)\w{0,20}\s{0,9}")
_UNIT_OF_WORDS = {"micr": "us", "mill": "ms", "nano": "ns"}
_LONGEST = 400
_OF_KERNELS = frozenset(("kernel", "kernels"))
_RULE = re.compile(r"\s{0,40}[-=]{3,200}\s{0,9}")


class UnitAbove:
    """The unit, and the statistic, that a line states for the numbers in those right below it."""

    def __init__(self) -> None:
        self._unit = self._statistic = self._tag = ""
        self._has_members = False

    @property
    def is_open(self) -> bool:
        """Whether the line that was taken last states a unit for lines below it."""
        return bool(self._unit) and not self._has_members

    def take(self, text: str) -> str:
        """Returns a line with the unit that it has from above, and durations such as 2m27.9s in seconds."""
        if head := _HEAD.fullmatch(text) if len(text) < _MOST else None:
            words = head["words"].lower().split()
            self._unit = head["unit"] if is_measured(head["words"]) else ""
            kinds = [STATISTIC[word] for word in words if STATISTIC.get(word, "count") not in ("count", "total")]
            self._statistic, self._has_members = (kinds or [""])[0], False
            self._tag = f"[{head['words']}] " if _OF_KERNELS.intersection(words) else ""
            return text
        said = _SENTENCE.fullmatch(text) if ":" in text[-10:] and len(text) < _LONGEST else None
        if said and is_measured(text):
            unit = (said["unit"] or said["also"]).lower()
            self._unit = _UNIT_OF_WORDS.get(unit[:4], unit)
            self._statistic, self._has_members, self._tag = "", False, ""
            return text
        is_between = not text.strip() or _RULE.fullmatch(text) or _FENCE.fullmatch(text)
        if not self._unit or (is_between and not self._has_members):
            return in_seconds(text)
        member = _MEMBER.fullmatch(text)
        if not member:
            self._unit = ""
            return in_seconds(text)
        self._has_members = True
        if is_no_time(member["label"]):
            return text
        statistic = f" - {self._statistic}" if self._statistic else ""
        return f"{member['start']}{self._tag}{member['label']}{statistic}: {member['number']} {self._unit}"


def joined(text: str, peek: Callable[[int], str | None]) -> tuple[str, int]:
    """An object that begins in a line and ends in one below, in one line; and how many lines below it has.

    `peek` gives the lines below by their number, from 1. The line itself and 0 where no object begins in it.
    """
    if len(text) > _MOST or not opens_record(text):
        return text, 0
    parts, still_open, size = [text], open_brackets(text), len(text)
    for below in range(1, _MOST_LINES):
        line = peek(below)
        if line is None or (size := size + len(line)) > _MOST:
            return text, 0
        parts.append(line.strip())
        still_open += open_brackets(line)
        if still_open <= 0:
            return (" ".join(parts), below) if not still_open else (text, 0)
    return text, 0


def whole_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yields lines, and those of an object as one."""
    at = 0
    while at < len(lines):
        coming = dict(enumerate(lines[at + 1 : at + _MOST_LINES], 1))
        text, below = joined(lines[at], coming.get)
        yield text
        at += 1 + below
