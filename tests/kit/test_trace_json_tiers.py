"""Compiled code, Python, processes and chunks of any size read the same rows in the same order, damaged or not.

`KTRACE_TIERS=5000` damages so many documents instead of a few.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
from conftest import SAMPLES
from fuzz.compare import difference, ways
from nightly import few

from ktrace.kit.trace_json import decode
from ktrace.pipeline.convert import convert

CASES = int(os.environ.get("KTRACE_TIERS", "48"))

#: Small samples, by format.
TEXTS = [
    (folder, path.read_bytes())
    for folder in ("kineto", "chrome", "onnxruntime", "ascend-json", "xprof-json")
    for path in sorted((SAMPLES / folder).glob("*.json"))
    if path.stat().st_size < 60_000
]

WORDS = [
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"nan",
        b"null",
        b"\\u0043",
        b"1e30",
        b"99999999999",
        b"-1",
        b'"X"',
        b'"C"',
    ),
    *(b"1.0005", b'{"ph":"X","name":"z","ts":1,"dur":1},', b"\xff", b"\\ud800", b"},{", b"-0", b"1.50", b"}\n,{"),
]
NUMBERS = [b"null", b"1e3", b'"7"', b"1.5", b"99999999999999999999", b"[1]", b"true", b"-1", b"1.2345"]
NAMES = [b'"\\u0063at"', b'"kernel"', b'"X"', b'"C"', b'"ph"', b'"a\\\\n"', b'"a\\n"', b"5", b'"s"']

pytestmark = pytest.mark.skipif(decode.compiled is None, reason="ktrace.native isn't built here")


def damaged(text: bytes, chance: random.Random) -> bytes:
    """The text with up to four faults: words inserted, bytes lost, values and keys replaced, an end cut off."""
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(7)
        if kind < 2:
            text = text[:at] + chance.choice(WORDS) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at + chance.choice([1, 2, 5, 40, 300]) :]
        elif kind == 3:
            text = text[:at] + text[max(0, at - chance.randrange(200)) : at] + text[at:]
        elif kind == 4:
            text = replaced(text, rb"(?<=[:,])\s*-?\d+\.?\d*(?=[,}])", NUMBERS, chance)
        elif kind == 5:
            text = replaced(text, rb'"[a-z]{1,12}"(?=[,}:])', NAMES, chance)
        elif not chance.randrange(4):
            text = text[:at]
    return text


def replaced(text: bytes, pattern: bytes, words: list[bytes], chance: random.Random) -> bytes:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(words) + text[one.end() :]


@pytest.mark.parametrize("seed", few(range(CASES), 12))
def test_who_reads_makes_no_difference(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    fmt, text = chance.choice(TEXTS)
    path = tmp_path / "run.json"
    path.write_bytes(damaged(text, chance))
    several = ways(*chance.sample((64, 300, 700, 5000), 2))
    assert not difference(path, fmt, tmp_path, several if not seed % 4 else several[:2])


#: An event of one line, of several, and of one line in several; lists of objects in each look like further events.
LISTS = (
    '"args":{"device":0,"stream":7,"correlation":%d,"many":[{"ph":"X","name":"a"},{"b":1},\n  {"ph":"X"}, {"c":2}]}}'
)
EVENT = '{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d.5,"dur":3,' + LISTS


@pytest.mark.parametrize("between", few([" ,\n  ", ",\n", ","], 1))
def test_an_event_over_the_end_of_a_range(between: str, tmp_path: Path) -> None:
    """The range ends with it, wherever in it that end is and whatever looks like a boundary there."""
    events = [(EVENT, EVENT.replace("\n", ""), EVENT.replace(",", ",\n "))[number % 3] for number in range(40)]
    path = tmp_path / "run.json"
    for offset in range(0, 260, 13):
        path.write_text('{"traceEvents":[\n' + " " * offset + between.join(events) + "\n]}")
        assert not difference(path, "kineto", tmp_path, ways(64, 300))


@pytest.mark.parametrize(
    ("event", "issue"),
    [
        ('{"ph":"X","cat":"kernel","name":"a","name":"b","ts":1,"dur":1}', "duplicate-key"),
        ('{"ph":"X","cat":"kernel","name":"b","ts":1,"dur":1,"args":{"n":1,"n":2}}', "duplicate-key"),
        ('{"ph":"X","cat":"kernel","name":"b","ts":1,"dur":1,"args":{"n":1,"of":{"x":1,"x":2}}}', ""),  # kept as it is
        ('{"ph":"X","cat":"kernel","name":"b","ts":1,"pid":12[{"ph":"M","name":"process_name"}', "bad-record"),
    ],
)
def test_an_odd_event_is_said_wherever_it_is(event: str, issue: str, tmp_path: Path) -> None:
    """The events before it taught the shape, and the chunk before it had nothing new."""
    usual = ['{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"args":{"n":1,"of":{"x":1}}}'] * 30
    path = tmp_path / "run.json"
    for place in (0, 12, 29):
        path.write_text("[" + ",\n".join([*usual[:place], event, *usual[place:]]) + "]")
        assert not difference(path, "kineto", tmp_path, ways(64, 700))
        report = convert(path, tmp_path / "rows.csv", from_="kineto", overwrite=True)
        assert [kind for kind in report.issues if kind in ("duplicate-key", "bad-record")] == ([issue] if issue else [])
