"""Random packets: what the package `perfetto` says of them, and what we read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto_rows import NAMES, Row, random_trace, write
from perfetto_samples import BEGIN, COUNTER, END, INSTANT

from ktrace.converters.perfetto.wire import bytes_field, int_field
from ktrace.kit.columnar import protobuf
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),  # which are texts in `args`
    st.sampled_from(NAMES),
    st.recursive(st.integers(-5, 300), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=5).filter(
        lambda value: isinstance(value, list)
    ),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1),
)


@st.composite
def random_event(draw: st.DrawFn) -> tuple[int, Row]:
    kind = draw(st.sampled_from([BEGIN, END, INSTANT, COUNTER]))
    track = draw(st.integers(0, 3)) + 4 * (kind == END)  # begins and ends in the order of PyTorch's lists are pairs
    keys = draw(st.lists(st.sampled_from(["size", "shape", "é", "id"]), unique=True, max_size=4))
    return draw(st.integers(0, 2**62 - 1)), {
        "kind": kind,
        "name": draw(st.sampled_from(NAMES)),
        "interned": draw(st.booleans()),
        "track": track,
        "category": draw(st.sampled_from([None, "io", "gpu"])),
        "value": draw(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))),
        "args": {key: draw(VALUES) for key in keys},
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(random_event(), max_size=8), st.integers(1, 100), st.randoms(use_true_random=False))
def test_random_events(tmp_path_factory: pytest.TempPathFactory, some: list[Any], times: int, dice: Any) -> None:
    """Each event occurs often, and among others: packets are parsed together, and have different fields."""
    chosen = some * times
    dice.shuffle(chosen)
    path = write(tmp_path_factory.mktemp("random") / "random.pftrace", random_trace(chosen))
    report = Report()
    batches = [batch for batch in read_batches([str(path)], report, format="perfetto") if batch.record == "events"]
    rows = []
    for batch in batches:
        for row, args in zip(to_rows(batch), batch.args_text().to_pylist(), strict=True):
            rows.append(row | {"args": json.loads(args) if args else {}})
    assert report.balanced()
    assert not report.issues
    rows.sort(key=lambda row: row["id"])  # as the packets stand in the file
    assert len(rows) == len(chosen)
    for (ts, what), row in zip(chosen, rows, strict=True):
        assert row["ts"] == ts
        assert row["name"] == what["name"]
        assert row["track"] == str(what["track"])
        assert row.get("cat") == what["category"]
        assert row["args"] == what["args"]
        assert row.get("half") == {BEGIN: "begin", END: "end"}.get(what["kind"])
        assert row["kind"] == {INSTANT: "instant", COUNTER: "counter"}.get(what["kind"], "range")
        assert row.get("value") == (float(what["value"]) if what["kind"] == COUNTER else None)


def fields_by_one(data: bytes) -> list[tuple[int, int, Any]] | None:
    """The fields of a message by the simple parser; None if it isn't protobuf."""
    try:
        return list(protobuf.fields_of(data))
    except ValueError:
        return None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=24), max_size=6), st.integers(1, 120), st.randoms(use_true_random=False))
def test_columns_of_fields_are_those_of_each_message(some: list[bytes], times: int, dice: Any) -> None:
    """Any bytes, and true messages: the columns have exactly what the straight parser finds, in its order."""
    numbers = [dice.choice([0, 1, 127, 128, 2**35, 2**63, 2**64 - 1]) for _ in range(3)]
    true = [
        int_field(8, number) + bytes_field(3000, b"x" * (number % 7)) + int_field(8, number // 3) for number in numbers
    ]
    messages = (some + true) * times
    dice.shuffle(messages)
    sizes = np.array([len(message) for message in messages], np.int64)
    end = np.cumsum(sizes)
    data = b"".join(messages)
    found = protobuf.parse(np.frombuffer(data + bytes(dice.choice([0, 64])), np.uint8), end - sizes, end)
    bad = set(found.bad.tolist())
    columns: dict[int, dict[int, list[Any]]] = {}
    for tag in found.tags:
        column = found.get(tag >> 3, tag & 7)
        for owner, value, start in zip(*(array.tolist() for array in column), strict=True):
            shown = data[start : start + value] if tag & 7 == protobuf.LENGTH else value
            columns.setdefault(owner, {}).setdefault(tag, []).append(shown)
    for owner, message in enumerate(messages):
        wanted = fields_by_one(message)
        assert (wanted is None) == (owner in bad)
        if wanted is not None:
            expected: dict[int, list[Any]] = {}
            for number, wire, value in wanted:
                expected.setdefault(number << 3 | wire, []).append(value)
            assert columns.get(owner, {}) == expected
