"""Profiles of pprof, encoded here by the numbers of profile.proto, and compared with what was encoded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.pprof import probe
from ktrace.errors import DamagedInput
from ktrace.input.format import Score
from ktrace.input.source import Sample
from ktrace.trace.trace import Trace

GO = SAMPLES / "pprof/go-cpu-inlined-and-a-location-too-few.pb.gz"
JAX = SAMPLES / "pprof/memory-of-jax-unpacked.prof"

TEXTS = ["", "samples", "count", "cpu", "nanoseconds", "main", "main.go", "inner", "space", "bytes", "kind", "buffer"]
TYPES = [(1, {1: 1, 2: 2}), (1, {1: 3, 2: 4})]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(number: int, value: Any) -> bytes:
    """A number, a text, a list of numbers (packed), or a message as a dict of fields or a list of them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, dict):
        data = b"".join(field(key, one) for key, one in value.items())
    elif value and isinstance(value[0], tuple):
        data = b"".join(field(key, one) for key, one in value)
    else:
        data = b"".join(map(varint, value))
    return varint(number << 3 | 2) + varint(len(data)) + data


def profile(*fields: tuple[int, Any]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def read(tmp_path: Path, *fields: tuple[int, Any]) -> Trace:
    path = tmp_path / "run.pb"
    path.write_bytes(profile(*TYPES, *fields, *((6, text) for text in TEXTS)))
    return ktrace.read(path)


def stacks(trace: Trace) -> list[tuple[Any, ...]]:
    rows = trace.summaries
    scopes = [[] if scope is None else list(scope) for scope in rows["scope"]]
    return list(zip(scopes, rows["name"], rows["metric"], rows["unit"], rows["total"], strict=True))


def test_each_value_of_a_sample_is_a_row_with_its_stack() -> None:
    trace = ktrace.read(GO)
    outer = ["runtime.main (proc.go:198)", "main.main (simple.go:50)"]
    expected = []
    for scope, name, samples, cpu in (
        (outer, "main.gamma", 14, 140_000_000),
        ([*outer, "main.gamma (simple.go:21)"], "0x7f001000", 1, 10_000_000),
        ([], "[no stack]", 3, 30_000_000),
    ):
        expected.append((scope, name, "samples", "count", samples))
        expected.append((scope, name, "cpu", "ns", cpu))
    assert stacks(trace) == expected
    assert set(trace.summaries["kind"]) == {"sample"} and not len(trace.events)
    assert trace.report.reader.removed == {"bad-record": 2} and trace.report.balanced()
    facts = json.loads(trace.catalog["facts"].iloc[-1])
    assert {key: value for key, value in facts.items() if key not in ("path", "format")} == {
        "time_nanos": 1_537_130_863_468_834_518,
        "duration_nanos": 1_911_739_507,
        "period": 10_000_000,
        "period_type": "cpu nanoseconds",
        "default_sample_type": "cpu",
        "comments": ["made by hand"],
        "doubts": {"issues": {"bad-record": 2}},
    }


def test_the_memory_of_devices_is_what_is_allocated() -> None:
    trace = ktrace.read(JAX)
    rows = trace.summaries
    assert set(rows["kind"]) == {"alloc"}
    space = rows[rows["unit"] == "B"]
    assert space["total"].sum() == 1_048_576 + 262_144 and rows[rows["metric"] == "allocations"]["total"].sum() == 3
    labels = [json.loads(text) for text in space["args"]]
    assert labels == [
        {"kind": "buffer", "device": "cpu:0", "frame": "<module> (train.py:10)"},
        *[
            {
                "kind": "buffer",
                "device": "cpu:0",
                "bytes": 262_144,
                "$bytes_unit": "bytes",
                "frame": "make (train.py:20)",
            }
        ],
    ]
    assert list(rows[rows["metric"] == "allocations"]["name"]) == ["<module>", "make", "compile"]


def test_a_value_below_0_and_one_of_0(tmp_path: Path) -> None:
    trace = read(tmp_path, (2, {1: [1], 2: [-3, 0]}), (4, {1: 1, 4: {1: 9, 2: 7}}), (5, {1: 9, 2: 5, 4: 6}))
    assert stacks(trace) == [([], "main", "samples", "count", -3)]


@pytest.mark.parametrize(
    ("sample", "what"),
    [
        ({1: [5], 2: [1, 1]}, "doesn't exist: 5"),
        ({1: [2], 2: [1, 1]}, "doesn't exist: 77"),
        ({1: [1], 2: [1]}, "1 values, and 2 types"),
        ({1: [1], 2: [1, 1], 3: 5}, "isn't a message"),
    ],
)
def test_samples_that_are_wrong_are_reported(tmp_path: Path, sample: dict[int, Any], what: str) -> None:
    trace = read(
        tmp_path, (2, sample), (2, {1: [1], 2: [1, 1]}), (4, {1: 1, 3: 16}), (4, {1: 2, 4: {1: 77}}), (5, {1: 9, 2: 5})
    )
    assert trace.report.reader.removed == {"bad-record": 1} and trace.report.balanced()
    assert what in trace.report.issues["bad-record"].places[0][1]
    assert list(trace.summaries["name"]) == ["0x10", "0x10"]


@pytest.mark.parametrize("cut", [-40, -3, 5])
def test_a_profile_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run.pb"
    for data in (GO.read_bytes()[:cut] if cut < -8 else b"\x08\x01\x10", gzip.decompress(GO.read_bytes())[:cut]):
        path.write_bytes(data)
        with pytest.raises(DamagedInput, match="pprof"):
            ktrace.read(path, from_="pprof")


def test_what_is_a_profile() -> None:
    types, texts = profile(*TYPES), profile(*((6, text) for text in TEXTS))
    sample = field(2, {1: [1, 2], 2: [3, 4]})
    for data in (
        types + sample * 200,
        field(9, 1 << 60) + types + sample,
        types + texts,
        texts + types,
        sample + types,
    ):
        match = probe(Sample("run", data[:2000]))
        assert match and match.score == Score.DIALECT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\x04name and more text\n",
        b"{}\n",
        profile(*TYPES),
        profile((1, {1: 1, 3: 2}), (2, {1: [1]})),
        profile((1, "/host:CPU"), (2, {1: [1]})),
        profile(*TYPES, (2, {7: 1})),
        profile(*TYPES, (6, "no empty text"), (2, {1: [1]})),
        profile(*TYPES, (2, {1: [1]}), (16, 1)),
    ],
)
def test_what_is_none(data: bytes) -> None:
    assert probe(Sample("run", data)) is None
