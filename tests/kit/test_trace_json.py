"""Trace Event JSON to columns of events, against an independent reading by json with Decimal."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, StrictFailure
from ktrace.input.source import Source
from ktrace.kit.trace_json import document
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import MEMBERS, Events, Member
from ktrace.kit.trace_json.salvage import _BARE_WORD, _bare_words, mend, mend_words
from ktrace.model.batch import Batch
from ktrace.report import Report

CORPUS = ROOT.parent / "shared" / "corpus"


class Reading:
    """What came of a document: its events as dictionaries (with "$at"), its other members, the report."""

    def __init__(self, path: Path, *, rows: int = 65_536, strict: bool = False) -> None:
        self.report = Report(strict=strict)
        self.members: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.parts = 0
        conversion = Conversion(self.report, batch_rows=rows)
        assert not list(read_document(Source(str(path)), conversion, self._rows, self._member))
        self.events.sort(key=lambda event: event["$at"])
        assert self.report.balanced()
        if path.suffix == ".json":
            assert self.report.bytes.size == path.stat().st_size

    def _rows(self, events: Events, conversion: Conversion) -> Iterator[Batch]:
        self.parts += 1
        self.events += as_dicts(events)
        conversion.report.used(len(events))
        return iter(())

    def _member(self, found: Member, conversion: Conversion) -> Iterable[Batch]:
        self.members[found.key] = json.loads(found.text)
        return ()

    @property
    def plain(self) -> list[dict[str, Any]]:
        """The events without their ids."""
        return [{key: value for key, value in event.items() if key != "$at"} for event in self.events]

    def places(self, kind: str) -> list[str]:
        return [where for where, _ in self.report.issues[kind].places] if kind in self.report.issues else []


def as_dicts(part: Events) -> list[dict[str, Any]]:
    """The events of columns, as dictionaries of the columns that they have; JSON texts are read."""
    found: list[dict[str, Any]] = [{"$at": at} for at in part.at.tolist()]
    for name, column in part.columns.items():
        for event, value in zip(found, column.to_pylist(), strict=True):
            if value is not None:
                event[name] = ("json", exact(value)) if isinstance(value, bytes) else value
    return found


def exact(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def expected(event: dict[str, Any]) -> dict[str, Any]:
    """An event as an independent reading has it, in the words of `Events`."""
    found: dict[str, Any] = {}
    for key, value in event.items():
        if key == "args" and isinstance(value, dict):
            found |= {f"args.{name}": inner for name, inner in value.items()}
        elif key in ("ts", "dur"):
            found |= times(key, value)
        elif key in ("ph", "cat", "name", "bp", "s") or key in MEMBERS:
            if value is not None:
                found[key] = value
        else:
            found[f"args.${key}"] = value
    return found


def times(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        number = Decimal("x" if isinstance(value, bool) else value)
    except (ArithmeticError, ValueError, TypeError):
        return {f"args.${key}": value}
    whole = (number * 1000).to_integral_value(ROUND_HALF_EVEN)
    kept = {f"args.${key}": value} if whole != number * 1000 else {}
    return {key: int(whole)} | kept


def same(found: Any, wanted: Any) -> bool:
    """Whether a cell has the value: JSON text and column alike, numbers by their value and type."""
    value = found[1] if isinstance(found, tuple) else found
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, Decimal) and isinstance(value, (float, Decimal)):
        return float(value) == float(wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(same, value, wanted))
    if isinstance(wanted, dict):
        return (
            isinstance(value, dict) and value.keys() == wanted.keys() and all(same(value[k], wanted[k]) for k in wanted)
        )
    return type(value) is type(wanted) and bool(value == wanted)


def assert_events(found: list[dict[str, Any]], wanted: Iterable[dict[str, Any]]) -> None:
    wanted = [expected(event) for event in wanted]
    assert len(found) == len(wanted)
    for has, wants in zip(found, wanted, strict=True):
        assert has.keys() == wants.keys(), (has, wants)
        assert all(same(has[key], wants[key]) for key in wants), (has, wants)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


texts = st.text(max_size=12) | st.sampled_from(['},{"ph":"X"', '"', "\\", "},\n{", "[", "]}", "stream 7", "\u20ac"])
whole = st.integers(-(2**70), 2**70) | st.integers(0, 40)
decimals = st.decimals(-(10**12), 10**15, allow_nan=False, allow_infinity=False, places=5) | st.decimals(
    0, 99, places=3
)
floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: Decimal(repr(number)))
values = st.recursive(
    st.none() | st.booleans() | whole | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
times_ = decimals | st.integers(0, 2**52) | st.none() | st.sampled_from(["12.5", "x", True, [1]])
arguments = st.dictionaries(
    st.sampled_from(["device", "grid", "name", "a.b", ""]) | st.text(max_size=4), values, max_size=4
)
events_ = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "B", "i", "C", "s"]),
        "cat": st.sampled_from(["kernel", "ac2g", "cpu_op", "a,b"]),
        "name": texts,
        "pid": st.integers(0, 3) | texts | values,
        "tid": st.integers(0, 3) | texts,
        "ts": times_,
        "dur": times_,
        "id": st.integers(0, 2**64) | st.just("0x1f"),
        "tts": whole,
        "id2": st.just({"local": "0x1"}),
        "args": arguments,
    },
).filter(bool)


def dumped(value: Any) -> str:
    """JSON with Decimals as they are."""
    if isinstance(value, Decimal):
        return format(value, "f") if -20 < value.adjusted() < 20 else str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dumped(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dumped, value)) + "]"
    return json.dumps(value)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(events_, max_size=12),
    st.sampled_from(["array", "object", "lines", "open"]),
    st.sampled_from([64, 300, 1 << 19]),
)
def test_any_events_are_read_as_json_reads_them(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], container: str, chunk: int
) -> None:
    if container == "lines":
        events = [{"ph": "B"} | event for event in (events or [{}])]
    lines = [dumped(event) for event in events]
    text = {
        "array": f"[{', '.join(lines)}]",
        "object": f'{{"a": [1], "traceEvents": [{", ".join(lines)}], "b": {{"c": 1}}}}',
        "lines": "\n".join(lines) + "\n",
        "open": "[\n" + ",\n".join(lines),
    }[container]
    path = write(tmp_path_factory.mktemp("any"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "CHUNK", chunk)
        reading = Reading(path)
    wanted = [json.loads(line, parse_float=Decimal) for line in lines]
    assert_events(reading.plain, wanted)
    assert set(reading.report.issues) <= {"rounded", "text-number", "cut"}
    if container == "object":
        assert reading.members == {"a": [1], "b": {"c": 1}}


GOOD = [
    '{"ph":"X","cat":"a","name":"one","ts":1.000,"dur":2.5}',
    '{"ph":"B","name":"two","ts":3,"args":{"x":[1,{"y":2}]}}',
]
ONE, TWO = map(json.loads, GOOD)


@pytest.mark.parametrize(
    ("damaged", "wanted", "kinds"),
    [
        ('{"ph":"X","ts":1,"args":{"a":inf,"b":-Infinity,"c":NaN,"d":-nan(ind),"e":1.#INF}}',
         {"a": "Infinity", "b": "-Infinity", "c": "NaN", "d": "NaN", "e": "Infinity"}, {"json-repair": 5}),
        ('{"ph":"X","ts":1,"args":{"a":"x: inf, \\"nan\\"","b":[nan]}}', {"a": 'x: inf, "nan"', "b": ["NaN"]},
         {"json-repair": 1}),
        ('{"ph":"X","ts":1,"args":{"a":"x\ty\x01"}}', {"a": "x\ty\x01"}, {"json-repair": 1}),
        ('{"ph":"X","ts":1,"args":{"a":"C:\\Work\\x41\\\\n\\n"}}', {"a": "C:\\Work\\x41\\n\n"}, {"json-repair": 1}),
        ('{"ph":"X","ts":1,"args":{"a":"C:\\dir\\","b":1}}', {"a": "C:\\dir\\", "b": 1}, {"json-repair": 2}),
        (b'{"ph":"X","ts":1,"args":{"a":"\xff\xc3\xa9"}}', {"a": "\ufffd\u00e9"}, {"encoding": 1}),
        ('{"ph":"X","ts":1,"args":{"a":"f<"b">(c)","d":2}}', {"a": 'f<"b">(c)', "d": 2}, {"json-repair": 1}),
        ('{"ph":"X","ts":1,"args":{"a":1,},}', {"a": 1}, {"json-repair": 2}),
        ('{"ph":"X","ts":1,"args":{"a":007,"b":+1,"c":0x1f,"d":None,"e":True}}',
         {"a": 7, "b": 1, "c": 31, "d": None, "e": True}, {"json-repair": 5}),
        ('{"ph":"X","ts":1,"args":{"a":ncclFloat32,"b":[c10.half]}}', {"a": "ncclFloat32", "b": ["c10.half"]},
         {"json-repair": 2}),
        ('{"ph":"X","ts":"1.000","args":{"a":1}}', {"a": 1}, {"text-number": 1}),
        ('{"ph":"X","ts":1,"args":{"a":2,"a":1},"ts":1}', {"a": 1}, {"duplicate-key": 2}),
        ('{"ph":"X","ts":1,"args":{"a":"\\ud800"}}', {"a": "\ufffd"}, {"json-repair": 1}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [64, 1 << 19])
def test_damage_is_repaired_and_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damaged: str | bytes,
    wanted: Any,
    kinds: dict[str, int],
    chunk: int,
) -> None:
    """The event is whole afterwards, its neighbours too; the report names the byte; --strict refuses."""
    monkeypatch.setattr(document, "CHUNK", chunk)
    raw = damaged if isinstance(damaged, bytes) else damaged.encode()
    head = f'{{"traceEvents":[{GOOD[0]},\n'.encode()
    path = write(tmp_path, head + raw + f",\n{GOOD[1]}]}}".encode())
    reading = Reading(path)
    assert_events(reading.plain, [ONE, {"ph": "X", "ts": 1, "args": wanted}, TWO])
    assert {kind: issue.rows for kind, issue in reading.report.issues.items()} == kinds
    for kind in kinds:
        assert all(len(head) <= int(place.split()[1]) < len(head) + len(raw) for place in reading.places(kind))
    with pytest.raises(StrictFailure):
        Reading(path, strict=True)


def test_an_event_that_cannot_be_repaired_is_skipped_with_its_byte(tmp_path: Path) -> None:
    head = f"[{GOOD[0]},\n"
    reading = Reading(write(tmp_path, f'{head}{{"ph":"X","name":what is this}},\n{GOOD[1]},7,"x",null,{{}}]'))
    assert_events(reading.plain, [ONE, TWO])
    assert reading.report.issues["bad-record"].rows == 3
    assert reading.places("bad-record")[0] == f"byte {len(head)}"
    assert reading.report.reader.removed["structure"] == 2
    assert reading.report.reader.taken == 7


@pytest.mark.parametrize(
    "text",
    [
        "[ {},{0},{1}",
        "\ufeff[{0},\r\n{1},\r\n",
        "[{0}]\n[{1}]",
        "[{0}\n{1}]",
        "[{0},,{1},]",
        '{{"traceEvents":[{0}],"x":1,"traceEvents":[{1}]}}',
        '{{"traceEvents":[{0}]}}\n{{"traceEvents":[{1}]}}\n',
        "{0}\n{1}\n",
        "{0}\r\n\r\n{1}",
        '{{"x":"],","traceEvents":[{0},{1}',
        "[{0},\n[{1}]",
    ],
)
def test_containers_of_any_kind(tmp_path: Path, text: str) -> None:
    whole = text.replace("{}", "{{}}", 1).format(*GOOD) if "{}," in text else text.format(*GOOD)
    reading = Reading(write(tmp_path, whole))
    assert_events(reading.plain, [ONE, TWO])
    assert set(reading.report.issues) <= {"cut", "json-repair"}


@pytest.mark.parametrize("text", ['{"spans":[]}', "hello", "{", '{"a":1}', '{"a" 1}', "12"])
def test_what_is_no_trace_is_an_error_with_a_remedy(tmp_path: Path, text: str) -> None:
    with pytest.raises(DamagedInput) as caught:
        Reading(write(tmp_path, text))
    assert caught.value.where
    assert caught.value.expected
    assert caught.value.remedy


def test_every_cut_gives_its_whole_part_or_an_error(tmp_path: Path) -> None:
    text = f'{{"a":[1],"traceEvents":[{",".join(GOOD)}],"b":"c"}}'.encode()
    for end in range(1, len(text) - 1):
        try:
            reading = Reading(write(tmp_path, text[:end]))
        except DamagedInput:
            assert end <= text.index(b"[{")
            continue
        assert "cut" in reading.report.issues
        assert_events(
            reading.plain, [event for event, raw in zip((ONE, TWO), GOOD, strict=True) if raw in text[:end].decode()]
        )


def test_a_huge_member_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "LARGEST_MEMBER", 1000)
    ftrace = "x" * 3_000_000 + '\\"'
    reading = Reading(write(tmp_path, f'{{"systemTraceEvents":"{ftrace}","traceEvents":[{GOOD[0]}],"b":1}}'))
    assert_events(reading.plain, [ONE])
    assert reading.members == {"b": 1}
    assert reading.report.issues["unrecognised"].rows == 0


def kineto(count: int) -> list[str]:
    """Events whose texts and lists look like the boundaries of events."""
    nasty = ['},{"ph":"X"', '"},\n{"', "}]},", "[{\\", "plain"]
    found = []
    for number in range(count):
        args = {"n": number, "list": [{"a": 1}, {"b": [{"c": 2}, {}]}]}
        found.append(
            f'{{"ph":"X","cat":"{("kernel", "cpu_op")[number % 2]}","name":{json.dumps(nasty[number % 5])},'
            f'"pid":{number % 3},"ts":{number}.{number % 1000:03},"dur":1.5,"args":{json.dumps(args)}}}'
        )
        if number % 7 == 0:
            found.append(f'{{"ph":"C","name":"c","ts":{number},"args":{{"a":1,"b":{number}}}}}')
    return found


@pytest.mark.parametrize("chunk", [50, 100, 333, 4096])
def test_boundaries_guessed_wrong_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    text = f'{{"traceEvents":[{",".join(kineto(300))}]}}'
    path = write(tmp_path, text)
    monkeypatch.setattr(document, "CHUNK", chunk)
    reading = Reading(path)
    assert_events(reading.plain, exact(text)["traceEvents"])
    assert not reading.report.issues
    assert len({event["$at"] for event in reading.events}) == len(reading.events)


def test_ids_are_the_same_whatever_the_size_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "CHUNK", 1000)
    path = write(tmp_path, f"[{','.join(kineto(200))}]")
    whole = Reading(path)
    assert Reading(path, rows=1).parts == whole.parts
    monkeypatch.setattr(document, "MOST_EVENTS", 1)
    small = Reading(path)
    assert small.parts > whole.parts
    assert small.events == whole.events


@pytest.mark.parametrize("name", sorted(path.name for path in (CORPUS / "pytorch_kineto").glob("*")))
def test_real_files_are_read_as_json_reads_them(name: str) -> None:
    import gzip

    path = CORPUS / "pytorch_kineto" / name
    raw = path.read_bytes()
    text = gzip.decompress(raw) if name.endswith(".gz") else raw
    if len(text) > 12_000_000:
        pytest.skip("many seconds")
    reading = Reading(path)
    assert_events(reading.plain, exact(text)["traceEvents"])


@pytest.mark.parametrize("text", ['"a\\\\":nan,', '"a\\"":nan,', '"\\\\\\":nan,"', '":nan,"', '"x":"\\"nan,",', "nan,"])
@pytest.mark.parametrize("before", [0, 61, 62, 63, 64, 65])
def test_words_within_texts_stay(text: str, before: int) -> None:
    """The two ways to mend bare words agree, wherever quotes and backslashes stand."""
    whole = ("[" + " " * before + '"b":' + text + '"c":-inf]').encode()
    if len(mend(whole)[1]) == 1 or text.count('"') % 2 == 0:
        assert mend_words(whole)[:2] == mend(whole)


def test_bare_words_found_by_their_letters_are_those_of_the_pattern() -> None:
    rng = random.Random(3)
    words = [b"nan", b"-nan", b"NaN", b"inf", b"Infinity", b"(ind)", b"-", b"x", *3 * [b" ", b",", b":", b"[", b"}"]]
    several = 0
    for _ in range(5000):
        text = b"".join(rng.choices(words, k=rng.randrange(30)))
        found = [match.span() for match in _BARE_WORD.finditer(text)]
        assert [match.span() for match in _bare_words(text)] == found
        several += len(found) > 1
    assert several > 100
