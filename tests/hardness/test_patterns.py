"""No regular expression costs more than in proportion to the length of the text."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import nightly
import pytest

from ktrace.converters.nvprof.printed import trace_shape
from ktrace.input.wrapping import LAYERS
from tests.helpers.patterns import Used, all_patterns
from tests.helpers.pumps import Pump, cost, pumps
from tests.helpers.timing import lasting

# From short to long, so that an exponential pattern shows before it hangs. At the lengths in between, nothing else is
# looked for: about there, the bounds of repeats make the cost of linear patterns grow faster for a while.
_LENGTHS, _BETWEEN, _LONG = (18, 28, 42, 64, 128, 250, 500, 4_000), (128, 250), 500
#: By default one hostile text of four is tried.
_STEP = 1 if nightly.selected else 4
# Seconds of CPU time that no linear pattern needs for a character, and what is too short to be measured.
_SUSPICIOUS, _FLOOR = 0.1e-6, 0.4e-3


def worse_than_linear(pattern: re.Pattern[Any], method: str, step: int = 1) -> tuple[Pump, float] | None:
    """The first text whose cost grows faster than its length, and the ratio of costs for the fourfold length."""
    for pump in pumps(pattern)[::step]:
        length = _suspicious(pattern, method, pump)
        if length and (ratio := lasting(lambda: _out_of_proportion(pattern, method, pump, length))):  # noqa: B023
            return pump, ratio
    return None


def _text(pattern: re.Pattern[Any], pump: Pump, length: int) -> str | bytes:
    text = pump.text(length)
    return text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


def _suspicious(pattern: re.Pattern[Any], method: str, pump: Pump) -> int:
    """The first length whose cost is worth a closer look, 0 if there is none."""
    for length in _LENGTHS:
        text = _text(pattern, pump, length)
        most = max(_FLOOR, length * _SUSPICIOUS)
        took = cost(pattern, method, text)
        if took <= most or (length >= _LONG and _in_proportion(pattern, method, pump, length, took)):
            continue
        if cost(pattern, method, text) > _FLOOR:
            if length in _BETWEEN and not _explodes(pattern, method, pump, length):
                continue
            return length
    return 0


def _in_proportion(pattern: re.Pattern[Any], method: str, pump: Pump, length: int, took: float) -> bool:
    """Whether a length took so little more than a quarter of it that the next ones can't cost out of proportion.

    `_growth` objects to a square part of half the linear one or more; from the quarter to the whole, a part of a third
    makes a ratio of 4.9. Most patterns that are slow but linear end here, at a twentieth of the cost of `_growth`.
    """
    quarter = _text(pattern, pump, length // 4)
    return took < 4.8 * min(cost(pattern, method, quarter) for _ in range(3))


def _explodes(pattern: re.Pattern[Any], method: str, pump: Pump, length: int) -> bool:
    """Whether at most half more of a text makes it cost eight times as much: the double text would never end.

    It grows little by little, and no more once it costs so much. A pattern that explodes does so before 500 characters.
    """
    if length > _LONG:
        return False
    most = 8 * min(cost(pattern, method, _text(pattern, pump, length)) for _ in range(5))
    step = max(length // 16, 1)
    texts = (_text(pattern, pump, size) for size in range(length + step, length + length // 2 + 1, step))
    return any(cost(pattern, method, text) > most and cost(pattern, method, text) > most for text in texts)


def _out_of_proportion(pattern: re.Pattern[Any], method: str, pump: Pump, length: int) -> float:
    """`_growth` where it is above 8, else 0."""
    ratio = _growth(pattern, method, pump, length)
    return ratio if ratio > 8 else 0


def _growth(pattern: re.Pattern[Any], method: str, pump: Pump, length: int) -> float:
    """The cost of a text by that of a quarter of it, each the best of several; 4 if it is linear."""
    ratio = 16.0
    if _explodes(pattern, method, pump, length):
        return ratio
    for _ in range(2):
        short = min(cost(pattern, method, _text(pattern, pump, length)) for _ in range(5))
        text = _text(pattern, pump, 2 * length)
        middle = min(cost(pattern, method, text) for _ in range(3))
        if middle > min(1, 8 * short):
            return (middle / short) ** 2
        text = _text(pattern, pump, 4 * length)
        ratio = min(ratio, min(cost(pattern, method, text) for _ in range(2)) / short)
        if ratio <= 8:
            break
    return ratio


def _is_tried_by_day(used: Used) -> bool:
    """One in five, the same ones every day, also after lines above it have changed."""
    return crc32(re.sub(r":\d+", "", used.where).encode()) % 5 == 0


def test_patterns_take_twice_the_time_for_twice_the_text() -> None:
    """One test, since to find the patterns takes as long as to try them: all modules are loaded and parsed."""
    faults = []
    for used in all_patterns()[0] if nightly.selected else filter(_is_tried_by_day, all_patterns()[0]):
        for method in sorted(used.methods):
            if found := worse_than_linear(used.pattern, method, _STEP):
                cost_of = f"{found[0]}: 4 times the text, {found[1]:.1f} times the cost"
                faults.append(f"{used.where}: {method} of {used.pattern.pattern!r} on {cost_of}")
    assert not faults


#: Patterns that arguments are part of, and why they can't be tried here.
_OPEN = {
    "ktrace/analysis/questions/roofline/peaks.py device['name']": "names of devices, from our file or the user's",
    "ktrace/kit/text/forms.py form.pattern": "patterns that formats declare, each tried as one of its module",
    **dict.fromkeys(
        ("ktrace/input/line_pattern.py pattern", "ktrace/input/line_pattern.py pattern + _literal(text[at:]) + '$'"),
        "the user's own lines: words, numbers and blanks, none of them twice in a row",
    ),
    "ktrace/input/unwrapping.py b'^' + fence[1] + b'[ \\\\t]*\\\\r?$'": "three marks of a fence",
    "ktrace/input/wrapping.py LAYERS[layer]": "tried below",
    "ktrace/naming/taxonomy.py text": "the user's own rules",
    "ktrace/naming/taxonomy.py self.text": "the user's own rules",
    "ktrace/naming/taxonomy.py f'(?:{text})|'": "the user's own rules",
    "ktrace/output/parts.py re.escape(self._stem) + '\\\\.[0-9]{3}' + re.escape(self._suffix)": "no repetition without a bound",  # noqa: E501
    "ktrace/stages/select/filter.py '|'.join(map(translate, conditions.names))": "the user's own wildcards",
    "ktrace/stages/select/crop.py translate(pattern)": "the user's own wildcards",
    "ktrace/kit/sqlite/__init__.py f'(?:{pattern})(?:_V\\\\d+)?'": "names of tables, which a format gives",
    "converters/closed.py text.encode()": "found among the values of the module",
    "converters/execution_trace/document.py b'\\\\}\\\\s*,\\\\s*(?=\\\\{\\\\s*' + re.escape(key[1]) + b')'": "tried below",  # noqa: E501
    "converters/nsys/calls.py pattern": "names of tables, which the module gives",
    "converters/nsys_stats/reports.py f'(?:^|[^a-z0-9]){name}(?![a-z0-9])'": "no repetition",
    "converters/nvprof/printed.py '\\\\s*' + '\\\\s{2,}'.join(parts) + '\\\\s*'": "tried below",
    "converters/nvprof/printed.py '\\\\s*' + '\\\\s+'.join(cells) + '\\\\s*'": "tried below",
    "ktrace/cli/formats.py device": "devices that the module lists",
    "ktrace/cli/formats.py start + re.escape(word)": "no repetition",
    "converters/tracy_csv.py mark.join(parts)": "a lazy name, then cells without the mark",
    "converters/rocprofv3_json/walk.py b'\\\\}\\\\s*,\\\\s*(?=\\\\{\\\\s*' + (re.escape(key[1]) if key else b'') + b')'": "tried below",  # noqa: E501
}


def test_patterns_with_arguments_are_explained() -> None:
    assert {call.replace(call.split(" ")[0], call.split(":")[0], 1) for call in all_patterns()[1]} == _OPEN.keys()


@pytest.mark.parametrize("key", [b"", rb"\"name\"", b"id"])
def test_borders_of_objects(key: bytes) -> None:
    found = worse_than_linear(re.compile(rb"\}\s*,\s*(?=\{\s*" + re.escape(key) + rb")"), "search")
    assert not found, found


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_around_lines(layer: str) -> None:
    found = worse_than_linear(re.compile(LAYERS[layer]), "match", _STEP)
    assert not found, found


@pytest.mark.parametrize(
    "headings",
    [
        "Start  Duration  Grid Size  Block Size  Regs*  Src Dev  Dst Dev  Context  Name",
        "Start  Duration  Unified Memory  Name",
    ],
)
def test_rows_of_printed_traces(headings: str) -> None:
    shape = trace_shape(headings)
    assert shape
    for pattern in shape.patterns:
        found = worse_than_linear(pattern, "fullmatch", _STEP)
        assert not found, found


@pytest.mark.parametrize(
    ("pattern", "method"),
    nightly.few(
        [
            (r"(.*?)\s*", "fullmatch"),
            (r"(?:\d+,?)*", "fullmatch"),
            (r'"(?:[^"\\]|\\.)*":', "search"),
            (r"\w+::", "finditer"),
            (r"\s*x", "search"),
            (r"\s*(?:<!--.{0,4000}?-->\s*)*<a", "match"),
            (rb"\}\s*[\r\n]\s*\{", "match"),
        ],
        4,
    ),
)
def test_the_test_finds_what_it_is_for(pattern: str | bytes, method: str) -> None:
    assert worse_than_linear(re.compile(pattern), method)
