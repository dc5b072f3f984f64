"""Compiled code reads trace events exactly as Python does, or leaves them to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import examples

from ktrace.kit.trace_json import decode
from ktrace.kit.trace_json.decode import Decoder
from ktrace.kit.trace_json.events import Moves
from ktrace.report import Report
from tests.helpers.timing import cpu_seconds, lasting

pytestmark = pytest.mark.skipif(decode.compiled is None, reason="ktrace.native isn't built here")

TEACHING = [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.5, "dur": 2, "pid": 0, "tid": "stream 7", "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "mm", "ts": 1, "dur": 2, "pid": 9, "tid": 9, "args": {"Dims": [[1, 2], []]}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 1, "pid": 0, "tid": 7, "id": 3},
    {"ph": "C", "name": "memory", "ts": 1, "pid": 0, "args": {"used": 1, "free": 2.5}},
]
TEACHING[0]["args"] = {"device": 0, "grid": [1, 2, 3], "occupancy": 0.5, "graph": True, "note": "x", "n": None}


# What events have where the shapes above have nothing or something else.
ODD = [
    '{"ph":"X","cat":"kernel","name":"a","name":"b","ts":1,"dur":2,"args":{}}',
    '{"ph":"X","cat":"kernel","ts":1.0005,"dur":2}',
    '{"ph":"X","cat":"kernel","ts":"1.5","dur":2}',
    '{"ph":"X","cat":"kernel","ts":1e3,"dur":2}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"device":9223372036854775808}}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"device":-0,"occupancy":-0}}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"occupancy":1e400}}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"occupancy":0.30000000000000004,"note":"\\ud83d\\ude00"}}',
    '{"ph":"X","cat":"kernel","ts":1,"args":null}',
    '{"ph":"X","cat":"kernel","ts":1,"args":[1]}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"device":null}}',
    f'{{"ph":"X","cat":"kernel","ts":1,"args":{{"grid":{"[" * 70}1{"]" * 70}}}}}',
    '{"ph":"X","cat":"new","name":"n","ts":1}',
    '{"ph":"X","ts":1}',
    '{"cat":"kernel"}',
    '{"ph":"X","cat":"ac2g","name":"no flow","ts":1,"dur":1,"id":4}',
    '{"cat":1,"ph":"X","ts":1}',
    "{}",
    "null",
]

# What isn't JSON.
FAULTS = [
    '{"ph":"X","cat":"kernel","ts":01}',
    '{"ph":"X","cat":"kernel","ts":1.}',
    '{"ph":"X","cat":"kernel","ts":1,}',
    '{"ph":"X","cat":"kernel" "ts":1}',
    '{"ph":"X","cat":"kernel","ts":1,"name":"a\tb"}',
    '{"ph":"X","cat":"kernel","ts":1,"name":"\\x"}',
    '{"ph":"X","cat":"kernel","ts":1,"args":{"graph":tru}}',
    '{"ph":"X","cat":"kernel","ts":1,"name":"\\ud83d"}',
    '{"ph":"X","cat":"kernel","ts":1',
]


def read(texts: list[bytes], folded: tuple[str, ...] = (), *, salvaged: bool = False) -> tuple[Any, list[bool]]:
    """What a decoder gives for lists of events, and whether compiled code took each of them in the end.

    `salvaged`: as if salvage had found the events, each of them whole.
    """
    report = Report()
    decoder = Decoder(report, 1 << 17, folded)
    taken, byte = [], 0
    for text in texts:
        try:
            decoder.feed(text, Moves.none(byte), salvaged=salvaged)
        except msgspec.DecodeError:
            report.issue("bad-record", f"byte {byte}", "not JSON")
        taken.append(decoder.compiled)
        byte += len(text)
    rows: dict[int, dict[str, Any]] = {}
    pieces = []
    for events in decoder.flush():
        pieces.append((int(events.at[0]), len(events)))
        for name, column in events.columns.items():
            for at, value in zip(events.at.tolist(), column.to_pylist(), strict=True):
                if value is not None:
                    rows.setdefault(at, {})[name] = json.loads(value) if isinstance(value, bytes) else value
    found = [(at, sorted(row.items())) for at, row in sorted(rows.items())]
    issues = [(issue.kind, issue.rows, issue.places) for issue in report.issues.values()]
    return (found, report.reader.taken, dict(report.reader.removed), issues, pieces), taken


def same(lists: list[bytes], folded: tuple[str, ...] = ()) -> list[bool]:
    """Asserts that all ways agree, and returns which lists compiled code took."""
    ours, taken = read(lists, folded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "compiled", None)
        theirs, none = read(lists, folded)
    assert repr(ours) == repr(theirs)  # -0.0 isn't 0.0, and 1 isn't 1.0
    assert repr(ours) == repr(read(lists, folded, salvaged=True)[0])
    assert not any(none)
    return taken


def braced(members: Iterable[str]) -> str:
    return "{" + ",\n".join(members) + "}"


def listed(*events: Any) -> bytes:
    return b"[" + b",".join(e.encode() if isinstance(e, str) else json.dumps(e).encode() for e in events) + b"]"


def test_known_shapes_are_taken_from_the_first_list_on() -> None:
    """The first list teaches the shapes, and is then read by compiled code itself."""
    assert same([listed(*TEACHING), listed(*reversed(TEACHING))]) == [True, True]


def test_flows_that_repeat_others_are_counted_and_dropped() -> None:
    flows = [{**TEACHING[2], "ph": phase, "id": number} for number, phase in enumerate("stfstf")]
    assert same([listed(*TEACHING), listed(*flows, TEACHING[0])], folded=("ac2g",)) == [True, True]
    kept, dropped = read([listed(*flows)])[0], read([listed(*flows)], ("ac2g",))[0]
    assert [dict(row)["id"] for _, row in kept[0]] == [0, 1, 2, 3, 4, 5]
    assert dropped[:3] == ([], 6, {"folded": 6})


@pytest.mark.parametrize(
    "odd",
    [
        '{"ph":"s","cat":"ac2g","name":"with args","ts":1,"id":4,"args":{"a":1}}',
        '{"ph":"s","cat":"ac2g","name":"without","ts":1,"id":4,"args":{}}',
        '{"ph":"f","cat":"ac2g","name":"a member more","ts":1,"id":4,"tts":1}',
        '{"ph":"i","cat":"ac2g","name":"no flow","ts":1,"id":4}',
        '{"cat":"ac2g","name":"no phase","ts":1,"id":4}',
        '{"ph":1,"cat":"ac2g","name":"no phase","ts":1,"id":4}',
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_of_folded_categories_only_plain_flows_are_dropped(odd: str, first: bool) -> None:
    """One by one: the others are where they would be without them, whoever reads, whatever else the category has."""
    flows = [{**TEACHING[2], "ph": phase, "id": number} for number, phase in enumerate("stf")]
    events = [odd, *flows] if first else [*flows, odd, *flows]
    same([listed(*TEACHING), listed(*events, TEACHING[0]), listed(*flows)], folded=("ac2g",))
    same([listed(*events)], folded=("ac2g",))


def test_folded_flows_of_many_categories_are_read_alike() -> None:
    """Beyond 64 categories shapes go by phases, and compiled code can't tell which flows to drop."""
    many = [{**TEACHING[0], "cat": f"category {number}"} for number in range(70)]
    flows = [{**TEACHING[2], "ph": phase, "id": number} for number, phase in enumerate("stf")]
    same([listed(*TEACHING, *flows), listed(*many, *flows), listed(*flows, *many)], folded=("ac2g",))


@pytest.mark.parametrize("event", ODD)
def test_what_is_rare_is_read_alike(event: str) -> None:
    same([listed(*TEACHING), listed(TEACHING[0], event, TEACHING[1]), listed(*TEACHING)])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_list_with_a_fault_is_refused(fault: str) -> None:
    """Then nothing of it was taken: the reader in Python repairs it."""
    taken = same([listed(*TEACHING), listed(TEACHING[0], TEACHING[3], fault), listed(*TEACHING)])
    assert taken == [True, False, True]


@pytest.mark.parametrize("end", ["", "]]", "] x", ",]", "[]"])
def test_a_list_ends_with_its_bracket(end: str) -> None:
    assert same([listed(*TEACHING), listed(*TEACHING)[:-1] + end.encode()]) == [True, False]


@pytest.mark.parametrize(
    "number", ["1712195495893105.991", "1712867402348256", "9223372036854775.807", "-0.001", "0.1"]
)
def test_times_since_1970_are_exact(number: str) -> None:
    """PyTorch before 2.4 wrote such: 19 digits in ns."""
    event = f'{{"ph":"X","cat":"kernel","name":"gemm","ts":{number},"dur":1}}'
    assert same([listed(*TEACHING), listed(event)]) == [True, True]
    ((_, row),) = read([listed(event)])[0][0]
    assert dict(row)["ts"] == int(Decimal(number) * 1000)


@pytest.mark.parametrize(
    "number",
    [
        "9223372036854775.808",
        "18446744073709551616",
        "1e3",
        "1.00050000000000000000",
        "9.5e-05",
        "1712195495893105.9995",
    ],
)
def test_times_beyond_int64_and_spelled_oddly_are_left_to_python(number: str) -> None:
    event = f'{{"ph":"X","cat":"kernel","name":"gemm","ts":{number},"dur":1}}'
    assert same([listed(*TEACHING), listed(event)]) == [True, False]


def timed(ts: str, dur: str = "1", cat: str = "kernel", **more: str) -> str:
    members = {"ph": '"X"', "cat": f'"{cat}"', "name": '"1.00051"', "ts": ts, "dur": dur} | more
    return braced(f'"{key}":{value}' for key, value in members.items())


@pytest.mark.parametrize(
    ("number", "ns"),
    [
        *(("1.0005", 1000), ("1.0015", 1002), ("1.00050001", 1001), ("1.0004999999", 1000), ("-1.0015", -1002)),
        *(("-0.0001", 0), ("0.0005", 0), ("1.5000", 1500), ("171219549589310.9995", 171219549589311000)),
        *(("922337203685477.5807", 922337203685477581), ("204.22210925762525", 204222)),
    ],
)
def test_digits_below_1_ns_are_rounded_half_to_even_and_kept(number: str, ns: int) -> None:
    assert same([listed(*TEACHING), listed(timed(number), timed("1", number))]) == [True, True]
    (_, first), (_, second) = read([listed(timed(number), timed("1", number))])[0][0]
    assert dict(first)["ts"] == dict(second)["dur"] == ns
    is_exact = Decimal(number) * 1000 == ns
    assert dict(first).get("args.$ts") == dict(second).get("args.$dur") == (None if is_exact else float(number))


def test_rounded_times_are_read_alike_in_lists_of_any_kind() -> None:
    """Beside exact ones, in some events alone, beside flows that are dropped, and in lists that are refused."""
    flow = {**TEACHING[2], "ts": 1.00051}
    lists = [
        listed(*TEACHING, timed("1.00051"), flow, timed("7", "2.1234567"), *TEACHING),
        listed(*TEACHING),
        listed(timed("1.00051"), timed("3.00051", "3.00051"), '{"ph":"X","cat":"kernel","ts":"1.00051"}'),
        listed(*(timed(f"{number}.25{number:05}", f"{number}.00{number:03}") for number in range(1, 400))),
        listed(flow, *TEACHING, flow, timed("1.00051")),
    ]
    assert same(lists, folded=("ac2g",)) == [True, True, False, True, True]
    assert same([*lists, *lists]) == [True, True, False, True, True] * 2
    issues = read(lists)[0][3]  # 3 + 0 + 4 + (399 + 396, as .00100 has no such digits) + 3
    assert [(kind, rows, len(places)) for kind, rows, places in issues if kind == "rounded"] == [("rounded", 805, 20)]


def test_texts_in_two_spellings_are_one() -> None:
    twice = ['{"ph":"X","cat":"kernel","name":"a/b","ts":1}', '{"ph":"X","cat":"kernel","name":"a\\/b","ts":2}']
    assert same([listed(*TEACHING), listed(*twice), listed(*twice)]) == [True] * 3


@pytest.mark.parametrize(
    "events",
    [
        [r'{"ph":"X","cat":"a\\n","name":"A"}', r'{"ph":"X","cat":"a\n","name":"B"}'],
        [r'{"ph":"X","cat":"x\\u0041","name":"A"}', r'{"ph":"X","cat":"x\u0041","name":"B"}', '{"ph":"X","cat":"xA"}'],
        [r'{"cat":"c","ph":"\u0043","args":{"v":1}}', '{"cat":"c","ph":"C","args":{"v":2}}'],
        [r'{"ph":"\u0043","args":{"v":1}}', '{"ph":"C","args":{"v":2}}'],
        ['{"cat":"C","name":"no phase","args":{"v":1}}', '{"cat":"C","name":"no phase","args":{"v":2}}'],
    ],
)
def test_categories_and_phases_with_escapes_and_without_a_phase_are_read_alike(events: list[str]) -> None:
    same([listed(*events)] * 3)
    for event in events:  # alone: a list is refused as a whole
        same([listed(events[0])] * 3 + [listed(event)] * 3)


def test_many_distinct_texts_are_forgotten_between_flushes() -> None:
    """After 65,536 of them; a value that comes again is a new one then."""
    report = Report()
    decoder = Decoder(report, 1 << 17)
    decoder.feed(listed(*TEACHING), Moves.none(0))
    names: list[str] = []
    for part in range(3):
        events = [
            {**TEACHING[0], "name": f"k{number % 70_000}"} for number in range(part * 40_000, (part + 1) * 40_000)
        ]
        decoder.feed(listed(*events), Moves.none((part + 1) << 28))
        assert decoder.compiled
        for found in decoder.flush():
            if "cat" in found.columns and found.columns["cat"][0].as_py() == "kernel":
                names += found.columns["name"].to_pylist()
    assert names == ["gemm", *(f"k{number % 70_000}" for number in range(120_000))]


def test_after_many_refusals_it_isn_t_asked_any_more() -> None:
    decoder = Decoder(Report(), 1 << 17)
    odd = '{"ph":"X","cat":"kernel","ts":1e3}'
    decoder.feed(listed(*TEACHING), Moves.none(0))
    for number in range(1, 10):
        decoder.feed(listed(TEACHING[0], odd), Moves.none(number << 20))
    decoder.feed(listed(*TEACHING), Moves.none(11 << 20))
    assert not decoder.compiled


def _colliding(count: int) -> list[str]:
    """Names of 15 characters that are one to a hash without a key: it multiplied words of eight bytes, so that the
    second word can undo what the first one did."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", np.uint8)
    random, found = np.random.default_rng(27), dict[str, None]()
    wanted: Any = None
    while len(found) < count:
        first = np.full((1 << 20, 8), ord('"'), np.uint8)
        first[:, 1:] = letters[random.integers(0, 64, (1 << 20, 7))]
        mixed = (np.uint64(17 * 0x9E3779B97F4A7C15 % (1 << 64)) ^ first.view("<u8").ravel()) * np.uint64(
            0xFF51AFD7ED558CCD
        )
        mixed ^= mixed >> np.uint64(32)
        wanted = wanted if wanted is not None else mixed[0] ^ np.frombuffer(b"abcdefgh", "<u8")[0]
        second = (mixed ^ wanted).view(np.uint8).reshape(-1, 8)
        plain = ((second >= 0x20) & (second < 0x7F) & (second != ord('"')) & (second != ord("\\"))).all(axis=1)
        for row in np.flatnonzero(plain).tolist():
            found[(first[row, 1:].tobytes() + second[row].tobytes()).decode()] = None
    return list(found)[:count]


def test_names_made_to_collide_take_no_longer_than_others() -> None:
    """The hash has a key of the process: 130,000 such names of 10 MB took 31 s instead of 0.5."""

    def seconds(text: bytes) -> float:
        decoder = Decoder(Report(), 1 << 17)
        decoder.feed(listed(*TEACHING), Moves.none(0))
        took = cpu_seconds(decoder.feed, text, Moves.none(1 << 20))
        assert decoder.compiled
        return took

    def too_slow() -> tuple[float, float] | None:
        plain, colliding = (min(seconds(text) for _ in range(3)) for text in texts)
        return (plain, colliding) if colliding >= 2 * plain + 0.05 else None

    both = [f"{number:015}" for number in range(40_000)], _colliding(40_000)
    texts = [listed(*({**TEACHING[0], "name": name} for name in names)) for names in both]
    slow = lasting(too_slow)
    assert not slow, slow


_NUMBERS = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**15), 10**15, allow_nan=False, allow_infinity=False, places=3).map(str),
    st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=6).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
_TEXTS = st.text(max_size=20).map(json.dumps) | st.text(max_size=20).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
_VALUES = st.recursive(
    _NUMBERS | _TEXTS | st.sampled_from(["true", "false", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
        | st.dictionaries(_TEXTS, inner, max_size=3).map(
            lambda members: braced(f"{key} : {value}" for key, value in members.items())
        )
    ),
    max_leaves=6,
)
_ARGS = st.dictionaries(
    st.sampled_from(["device", "grid", "occupancy", "graph", "note", "n", "x"]), _VALUES, max_size=5
)


@st.composite
def _event(draw: st.DrawFn) -> str:
    members = {
        "ph": draw(st.sampled_from(['"X"', '"C"', '"s"', '"i"', None])),
        "cat": draw(st.sampled_from(['"kernel"', '"kernel"', '"cpu_op"', None])),
        "name": draw(_TEXTS | st.none()),
        "ts": draw(_NUMBERS),
        "tid": draw(_VALUES | st.none()),
        "args": draw(_ARGS.map(lambda args: braced(f'"{key}": {value}' for key, value in args.items())) | _VALUES),
    }
    keys = draw(st.permutations(sorted(members)))
    return braced(f'"{key}" : {members[key]}' for key in keys if members[key] is not None)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.lists(_event(), min_size=1, max_size=4), min_size=1, max_size=3), st.booleans())
def test_any_events_are_read_alike(lists: list[list[str]], taught: bool) -> None:
    """With a category, a phase, both or neither, members in any order; known shapes, or whatever comes first."""
    same([*[listed(*TEACHING)] * taught, *(listed(*events) for events in lists), listed(*TEACHING)])
