"""What lines mean by the lines around them: a unit stated above bare numbers, an object that is printed over lines.

kernel: matmul                {'kernel': 'matmul', 'calls': 3, 'total': '1.5 ms'}
calls: 3
total: 1.5 ms

Kernel times (us):            matmul: 12.5 us
  matmul: 12.5
  softmax 3.5                 softmax: 3.5 us
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.titles import title_of

from .durations import NUMBER, STATISTIC, TIME, UNITS, in_seconds, is_no_time
from .members import name_key_of
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
_UNIT_OF_KEY = re.compile(r"(?:_|\b)(?:[nmu]s|[mun]?secs?|seconds)\)?$")
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
    """An object that begins in a line and ends in one below, or a block of keys, in one line; how many below it has.

    `peek` gives the lines below by their number, from 1. The line itself and 0 where no object begins in it.
    """
    if len(text) > _MOST or not opens_record(text):
        return block(text, peek) if len(text) < _LONGEST else (text, 0)
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


_PAIR = re.compile(
    r"(?P<indent>\s{0,40})(?:[-*•] )?(?P<key>[A-Za-z_][\w ()/%.-]{0,40}?)\s{0,40}[:=]\s{1,40}(?P<value>\S.{0,400})"
)
_TIMED_VALUE = re.compile(rf"(?:{TIME})\s{{0,9}}")
_BARE_VALUE = re.compile(rf"-?(?:{NUMBER})")
_LEAST_MEMBERS, _MOST_MEMBERS = 2, 40


def block(text: str, peek: Callable[[int], str | None]) -> tuple[str, int]:
    """The lines of keys and values below one with a name, as an object in one line; and how many lines below it has.

    The keys are different ones, and one of them at least states a time. The line itself and 0 for another line.
    """
    title = title_of(1, text)
    head = _PAIR.fullmatch(title.text if title else text)
    if not head or name_key_of({(name := head["key"].replace(" ", "_")): head["value"]}) is None:
        return text, 0
    members, below = {name: head["value"].strip("'\"` ")}, 0
    indent = len(head["indent"]) if not title else 0
    while (line := peek(below + 1)) is not None and len(members) <= _MOST_MEMBERS and (match := _PAIR.fullmatch(line)):
        is_name = name_key_of({match["key"].replace(" ", "_"): match["value"]}) is not None
        if match["key"] in members or len(match["indent"]) < indent or is_name:
            break
        members[match["key"]] = match["value"].strip()
        below += 1
    has_time = any(_TIMED_VALUE.fullmatch(value) or _UNIT_OF_KEY.search(key) for key, value in members.items())
    if below < _LEAST_MEMBERS or not has_time:
        return text, 0
    values = (value.replace(",", "") if _BARE_VALUE.fullmatch(value) else repr(value) for value in members.values())
    return "{" + ", ".join(f"{key!r}: {value}" for key, value in zip(members, values, strict=True)) + "}", below


def whole_lines(lines: Sequence[str]) -> Iterator[str]:
    """Yields lines, and those of an object as one."""
    at = 0
    while at < len(lines):
        coming = dict(enumerate(lines[at + 1 : at + _MOST_LINES], 1))
        text, below = joined(lines[at], coming.get)
        yield text
        at += 1 + below
