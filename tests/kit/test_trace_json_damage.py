"""What one fault anywhere in a document costs: the event that it hits, and no other one.

The events are counted without ktrace: each has a name of its own, and those that the fault doesn't touch must be there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from nightly import few
from test_trace_json import Reading, write

from ktrace.kit.trace_json import document
from tests.helpers.timing import cpu_seconds, lasting


def nest(depth: int) -> str:
    return '[{"a":' * depth + "1" + "}]" * depth


#: What the args of some events contain: nests, what looks like events, quotes and backslashes.
ODD = [
    *(f', "x": {nest(depth)}' for depth in (1, 24, 60)),
    ', "list": [{"ph": "X", "ts": 1, "name": "in"}, {"ph": "M"}]',
    ', "t": "},{\\"ph\\": \\"X\\"", "u": "C:\\\\"',
    ', "t": "[{[{[{"',
    "",
    "",
    "",
]


def event(number: int, rest: str, style: str) -> str:
    text = (
        f'{{"ph": "X", "cat": "op", "name": "m{number:03}m", "pid": 1, "tid": {number % 3}, "ts": {2 * number}, '
        f'"dur": 1, "args": {{"i": {number}{rest}}}}}'
    )
    if style == "indented":
        return json.dumps(json.loads(text), indent=1)
    return text.replace(": ", ":").replace(", ", ",") if style == "dense" else text


#: Text that comes between two events, or into one.
JUNK = [
    *('"', "{", "}", "[", "]", ",", ":", "\\", "foo", "null", "{}", '"x":foo', '{"ph":', '"ph"', '{"name":"x"', '"""'),
    *("]}]}", "}]", "[{" * 30, "{" * 200, "[" * 2000, '{"traceEvents": [', '], "traceEvents": [', '"' + "x" * 3000),
    '[ERROR] something: "quoted" {json: 1}\n',
    'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    raise {x}\n',
    "\0" * 4096,
]
CONTAINERS = {
    "list": ("[", "]", [",", ",\n"]),
    "first": ('{"traceEvents": [\n', '\n], "traceName": "x"}', [",", ", ", ",\n  "]),
    "last": ('{"schemaVersion": 1, "traceEvents":[', '],"deviceProperties":[{"id":0}]}', [",", ",\n"]),
    "lines": ("", "\n", ["\n"]),
}


def damaged(dice: random.Random) -> tuple[str, set[str], str]:
    """A document with one fault, the names of the events that the fault doesn't touch, and what the fault is."""
    container = dice.choice(list(CONTAINERS))
    head, tail, separators = CONTAINERS[container]
    styles = ["plain", "dense"] if container == "lines" else ["plain", "dense", "indented"]
    style, separator = dice.choice(styles), dice.choice(separators)
    text, spans = head, []
    for number in range(dice.choice([5, 40])):
        text += separator * bool(number)
        spans.append((len(text), len(text) + len(one := event(number, dice.choice(ODD), style))))
        text += one
    place = dice.choice([dice.randrange(len(head) + 1, len(text)), dice.choice(spans[1:])[dice.randrange(2)]])
    lost = dice.choice([0, 0, 1, 1, 2, 5, 40])
    junk = dice.choice(JUNK) if not lost or dice.random() < 0.3 else ""
    fault = f"{container}, {style}: at {place} {text[place : place + lost]!r} -> {junk[:30]!r}"
    sound = {
        f"m{number:03}m"
        for number, (begin, end) in enumerate(spans)
        if end <= place or begin > place + lost or (begin == place + lost and lost < 2)
    }
    return text[:place] + junk + text[min(place + lost, len(text)) :] + tail, sound, fault


@pytest.mark.parametrize("seed", few(range(16), 3))
def test_one_fault_costs_the_event_that_it_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(50):
        text, sound, fault = damaged(dice)
        monkeypatch.setattr(document, "CHUNK", dice.choice([64, 300, 1 << 19]))
        reading = Reading(write(tmp_path, text))
        names = {row.get("name") for row in reading.plain}
        assert sound <= names, (fault, sorted(sound - names)[:3])
        assert reading.report.reader.balanced()


def documents(fault: Callable[[list[str]], None], size: int) -> str:
    lines = [event(number % 1000, ODD[3] if number % 50 == 7 else "", "plain") for number in range(size)]
    fault(lines)
    return "[" + ",\n".join(lines) + "]"


def _deep(lines: list[str]) -> None:
    lines[2] = event(2, f', "x": {nest(60)}', "plain")
    lines[3] = lines[3].replace('"i"', '"x":foo,"i"')


def _end(lines: list[str]) -> None:
    lines[3] = lines[3].replace('"tid"', '"tid"]')


def _document(lines: list[str]) -> None:
    lines[3] = '{"traceEvents": [' + lines[3]


def _quotes(lines: list[str]) -> None:
    lines[::2] = [line.replace('"op"', '"op') for line in lines[::2]]


def _openings(lines: list[str]) -> None:
    lines[::2] = [line[1:] for line in lines[::2]]


def _braces(lines: list[str]) -> None:
    lines[::2] = ["{" * 3 + line for line in lines[::2]]


def _within(lines: list[str]) -> None:
    lines[0] = '{"ph": "X", "a": foo, "b": [' + ", ".join(['{"ph": foo, "name": "in"}'] * len(lines)) + "]}"


@pytest.mark.parametrize("fault", few([_deep, _end, _document, _quotes, _openings, _braces, _within], 3))
def test_damage_takes_time_in_proportion_to_the_document(tmp_path: Path, fault: Callable[[list[str]], None]) -> None:
    def cost(size: int) -> float:
        path = write(tmp_path, documents(fault, size))
        return min(cpu_seconds(Reading, path) for _ in range(2))

    def too_slow() -> tuple[float, float] | None:
        short, long = cost(600), cost(2400)
        return (short, long) if long >= 7 * short + 0.03 else None

    slow = lasting(too_slow)
    assert not slow, slow
