"""Where an event ends is known by the grammar alone: nests that look like events, of any size, at any border.

Whatever Python's json module reads as a document, has the same events for us, with no repair and no skip. Where the
text is broken, the broken event alone is lost or mended.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import few
from test_trace_json import Reading, assert_events, dumped, exact, write
from test_trace_json_ranges import account, in_order, read

from ktrace.kit.trace_json import chunks, document
from ktrace.kit.trace_json.chunks import Nest, Text, own_key, unescaped_quotes, value_at
from ktrace.kit.trace_json.salvage import salvage

_NASTY = ['},{"ph":"X"', "}]},{", '"', "\\", '\\"},\n{"ph":', "[{[{", "}}]]", "aGVsbG8/d29ybGQ=" * 9, "\u20ac", ""]


def _wrapped(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [{"a": value}]
    return value


texts = st.sampled_from(_NASTY) | st.text(max_size=5)
seeming = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "O", "M"]), "ts": st.integers(0, 99)},
    optional={"name": texts, "args": st.dictionaries(texts, texts, max_size=2)},
)
leaves = st.none() | st.booleans() | st.integers(-9, 2**70) | st.just(1e300) | texts | seeming
nests = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(texts, inner, max_size=3)
        | st.builds(_wrapped, inner, st.integers(1, 30))
    ),
    max_leaves=25,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "args": st.fixed_dictionaries({"a": nests}, optional={"b": nests, "ph": nests}),
        "ph": st.sampled_from(["X", "O", "B"]),
        "cat": st.sampled_from(["k", "o"]),
        "name": texts,
        "ts": st.integers(0, 10**6),
        "snapshot": nests,
    },
).filter(bool)


def documents(container: str, lines: list[str], other: str, comma: str) -> str:
    """A document with the events of `lines`; beside them a member that holds what seem events."""
    inside = f"[{comma.join(lines)}]"
    return {
        "array": inside,
        "first": f'{{"traceEvents": {inside}, "other": [{other}]}}',
        "last": f'{{"name": [{other}], "args": {{"traceEvents": [{other}]}}, "traceEvents":{inside}}}',
        "middle": f'{{"id":{other},"traceEvents":\n{inside}\n,"other":{{"traceEvents": [{other}, {other}]}}}}',
    }[container]


CONTAINERS = ["array", "first", "last", "middle"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(events, min_size=1, max_size=12),
    seeming,
    st.sampled_from(CONTAINERS),
    st.sampled_from([",", ", ", " ,\n  "]),
    st.integers(30, 700) | st.just(1 << 19),
    st.sampled_from([64, 1000, 1 << 20]),
)
def test_all_that_json_accepts_is_read_as_json_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[dict[str, Any]],
    other: dict[str, Any],
    container: str,
    comma: str,
    chunk: int,
    block: int,
) -> None:
    text = documents(container, list(map(dumped, found)), dumped(other), comma)
    path = write(tmp_path_factory.mktemp("nest"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "CHUNK", chunk)
        patch.setattr(chunks, "BLOCK", block)
        reading = Reading(path)
    known = exact(text)
    assert_events(reading.plain, known["traceEvents"] if container != "array" else known)
    assert not reading.report.issues
    ids = [event["$at"] for event in reading.events]
    assert len(set(ids)) == len(ids)
    if container != "array":
        assert reading.members == {key: value for key, value in json.loads(text).items() if key != "traceEvents"}


#: An event larger than most chunks of the tests, of all that seems to end one.
BIG = {
    "ph": "O",
    "ts": 7,
    "name": 'a"},{"ph":"X"',
    "args": {"list": [{"ph": "X", "ts": n, "name": "},\n{", "in": [[{"ph": "M"}, {}]]} for n in range(12)]},
}
SMALL = [{"ph": "X", "name": f"n{number}", "ts": number, "dur": 1} for number in range(9)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("chunk", [97, 512, 1500])
def test_the_border_of_a_chunk_at_every_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, indent: int | None
) -> None:
    monkeypatch.setattr(document, "CHUNK", chunk)
    wanted = [SMALL[0], BIG, SMALL[1], BIG, BIG, *SMALL[2:]]
    text = json.dumps(wanted, indent=indent)
    for offset in range(0, min(chunk, len(text)), 7):
        reading = Reading(write(tmp_path, " " * offset + text))
        assert_events(reading.plain, wanted)
        assert not reading.report.issues


@pytest.fixture
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(document, "CHUNK", 300)
    monkeypatch.setattr(chunks, "RANGE", 900)
    monkeypatch.setattr(chunks, "FIRST", 700)
    monkeypatch.setattr(document, "LEAST", 1000)
    monkeypatch.setattr(document, "LEAST_STORED", 500)
    yield


@pytest.mark.forks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.usefixtures("_small_ranges")
@pytest.mark.parametrize("container", few(CONTAINERS, 2))
@pytest.mark.parametrize("damaged", [False, True])
def test_ranges_within_nested_events(tmp_path: Path, container: str, *, damaged: bool) -> None:
    """A range that begins within an event, at what seems one, isn't believed."""
    found = [BIG | {"ts": number} if number % 3 else {"ph": "X", "name": str(number), "ts": 1} for number in range(45)]
    lines = list(map(json.dumps, found))
    if damaged:
        lines[20] = lines[20].replace('"ts": 20', '"ts": @')
        lines[35] = lines[35].replace('"ts": 35', '"ts": inf')
    path = write(tmp_path, documents(container, lines, json.dumps(BIG), ",\n"))
    alone, report, _ = read(path, 1)
    assert len([row for row in alone if "id" in row]) == 45 - damaged
    for jobs in (2, 3):
        rows, other, _ = read(path, jobs)
        assert in_order(rows) == in_order(alone)
        assert account(other) == account(report)
    if not damaged:
        assert not report.issues


#: Faults that an event is lost by, or mended after: a way to make it of the event's text.
FAULTS = {
    "a word": lambda text: text.replace('"ts": 7', '"ts": @'),
    "no value": lambda text: text.replace('"ts": 7', '"ts": '),
    "no key": lambda text: text.replace('"ts": 7', "7"),
    "no colon": lambda text: text.replace('"ts": 7', '"ts" 7'),
    "no comma": lambda text: text.replace(', "ts"', ' "ts"'),
    "no opening quote": lambda text: text.replace('"ts"', 'ts"'),
    "no closing quote": lambda text: text.replace('"O"', '"O'),
    "no closing quote of a key": lambda text: text.replace('"ts"', '"ts'),
    "a bare quote": lambda text: text.replace('"O"', '"O"p"'),
    "a bare quote at the end": lambda text: text.replace('"last"', '"la"st"'),
    "two bare quotes": lambda text: text.replace('"O"', '"O "p" q"'),
    "a backslash": lambda text: text.replace('"O"', '"C:\\Work"'),
    "a backslash at the end": lambda text: text.replace('"O"', '"C:\\"'),
    "a control byte": lambda text: text.replace('"O"', '"O\x01\n"'),
    "inf": lambda text: text.replace('"ts": 7', '"ts": 7, "x": -inf'),
    "a trailing comma": lambda text: text[:-1] + ",}",
    "no last brace": lambda text: text[:-1],
    "no last braces": lambda text: text[:-2],
    "no last quote": lambda text: text.replace('"last"}}', '"last'),
    "a brace too many": lambda text: text.replace('"ts": 7', '"ts": 7}'),
    "a bracket too many": lambda text: text.replace('"ts": 7', '"ts": 7]'),
    "half of it": lambda text: text[: len(text) // 3],
}
HURT = {
    "ph": "O",
    "ts": 7,
    "args": {"list": [{"a": number, "b": [{"c": "},{"}]} for number in range(40)], "end": "last"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("comma", [",", ",\n"])
@pytest.mark.parametrize("chunk", [97, 1 << 19])
@pytest.mark.parametrize("first", [False, True])
def test_a_broken_event_costs_itself_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, comma: str, chunk: int, *, first: bool
) -> None:
    """And is reported with its byte. Neighbours that nest and whose texts hold brackets and quotes are whole."""
    monkeypatch.setattr(document, "CHUNK", chunk)
    before = [] if first else [SMALL[0], BIG, {"ph": "X", "ts": 1, "args": {"deep": _wrapped(1, 30)}}]
    after = [SMALL[1], BIG, *SMALL[2:], BIG]
    hurt = FAULTS[fault](json.dumps(HURT))
    assert hurt != json.dumps(HURT)
    head = "[" + comma.join([*map(json.dumps, before), ""])
    text = head + comma.join([hurt, *map(json.dumps, after)]) + "]"
    reading = Reading(write(tmp_path, text))
    plain = reading.plain
    assert_events(plain[: len(before)], before)
    assert_events(plain[len(plain) - len(after) :], after)
    assert len(plain) - len(before) - len(after) in (0, 1)
    [place, *_] = [where for kind in ("bad-record", "json-repair") for where in reading.places(kind)]
    assert len(head) <= int(place.split()[1]) <= len(head) + len(hurt)


@pytest.mark.parametrize("fault", ["a word", "no comma", "a bare quote", "no last brace", "half of it"])
def test_many_broken_events_cost_themselves(tmp_path: Path, fault: str) -> None:
    hurt = FAULTS[fault](json.dumps(HURT))
    lines = [hurt if number % 3 == 1 else json.dumps(SMALL[0] | {"ts": number}) for number in range(60)]
    reading = Reading(write(tmp_path, f'{{"traceEvents": [{", ".join(lines)}], "b": 1}}'))
    good = [event for event in reading.plain if event.get("name") == "n0"]
    assert [event["ts"] for event in good] == [1000 * number for number in range(60) if number % 3 != 1]
    assert reading.members == {"b": 1}


@pytest.mark.parametrize("missing", [False, True])
def test_one_deep_nest_and_a_fault_elsewhere(tmp_path: Path, *, missing: bool) -> None:
    """The case of which once nearly all was lost: read 8, wrote 3."""
    found = [f'{{"ph":"X","name":"n","ts":{number},"args":{{"i":{number}}}}}' for number in range(5000)]
    found[2500] = found[2500].replace('"i"', f'"n":{json.dumps(_wrapped(1, 30))},"i"')
    text = ",\n".join(found)
    text = text.replace('"i":100}},\n', '"i":100}}\n', 1) if missing else text.replace('"i":100}', '"i":@}', 1)
    reading = Reading(write(tmp_path, f"[{text}]"))
    assert len(reading.events) == 5000 - (not missing)
    assert sum(issue.rows for issue in reading.report.issues.values()) == 1


class Counting(io.BytesIO):
    """A stream of a text that goes on, and how much of it was read."""

    reads = 0

    def readinto(self, buffer: Any) -> int:
        self.reads += 1
        return super().readinto(buffer)


def test_a_window_grows_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without an end is copied a number of times that grows with the logarithm of its length."""
    monkeypatch.setattr(chunks, "BLOCK", 1 << 10)
    stream = Counting(b'{"ph":"' + b"x" * (1 << 20))
    text = Text(stream)  # type: ignore[arg-type]
    value = value_at(text, 0)
    assert (value.fault, value.end) == ("cut", (1 << 20) + 7)
    assert stream.reads < 40


def test_a_text_without_end_is_held_in_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 1 << 12)
    text = Text(io.BytesIO(b'{"ph":"X","name":"' + b"x" * (1 << 20)))
    text.largest = 1 << 14
    found = salvage(text, 1 << 21)
    assert [loss.kind for loss in found.lost] == ["cut"]
    assert text.pos == (1 << 20) + 18
    assert text.end - text.pos < 1 << 16


@given(st.lists(st.sampled_from(list(b'\\"a[]{}')), max_size=30).map(bytes), st.integers(0, 3))
def test_quotes_behind_backslashes(text: bytes, slashes: int) -> None:
    wanted, run = [], slashes
    for place, byte in enumerate(text):
        if byte == b'"'[0] and run % 2 == 0:
            wanted.append(place)
        run = run + 1 if byte == b"\\"[0] else 0
    assert unescaped_quotes(np.frombuffer(text, np.uint8), slashes).tolist() == wanted


@given(nests.filter(lambda value: isinstance(value, (list, dict, str))), st.integers(1, 40))
def test_the_end_of_a_nest_by_its_brackets(value: Any, step: int) -> None:
    text = json.dumps(value).encode()
    nest, view, at = Nest(), memoryview(text + b', {"a": "]"}'), 0
    while (end := nest.end(view[at : at + step])) < 0:
        at += step
    assert at + end == len(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"args": {"ph": 1}, "name": "ph", "ph": "X"}', b"ph"),
        ('{"name": [{"ph": "X"}], "traceEvents": []}', b"traceEvents"),
        ('{"name": [{"ph": "X"}]}, {"ph": 1}', b""),
        ('{"name": [{"ph": "X"}', None),
    ],
)
def test_the_keys_of_an_object_itself(text: str, key: bytes | None) -> None:
    assert own_key(text.encode(), frozenset((b"ph", b"traceEvents"))) == key
