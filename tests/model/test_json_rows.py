"""Columns joined to rows of JSON equal the same rows written by Python's json."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrace.model.json_rows import FEW_ROWS, Cells, as_text, fold_args, join_rows
from ktrace.model.json_text import dump_json, json_cells

INTS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
TEXTS = st.one_of(
    st.sampled_from(["", '"', "\\", "\n", "é😀", "\x00", "plain"]), st.text(st.characters(exclude_categories=["Cs"]))
)
JSONS = st.sampled_from([b"null", b"[[1, 2],[]]", b'{"a":{}}', b'"x"', b"1.50", b"-0.0", b"12345678901234567890123"])

#: Type of a typed argument -> its values.
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), INTS),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
    (pa.binary(), JSONS),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.dictionary(pa.int32(), pa.binary()), JSONS),
]


def value_of(kind: pa.DataType, value: Any) -> Any:
    """The value that JSON must contain for a value of a column."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_binary(inner):
        return json.loads(value)
    if isinstance(value, float) and not math.isfinite(value):
        return json.loads(dump_json(value))
    return value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str | None], list[tuple[pa.DataType, list[Any]]]]:
    """The text and the typed columns of rows; rows may repeat often enough to form a shape."""
    rows = draw(st.integers(0, 6))
    texts = draw(
        st.lists(
            st.sampled_from([None, "{}", " { } ", '{"t":1}', '\n{"t": [1, 2.50], "u":{}}\t']),
            min_size=rows,
            max_size=rows,
        )
    )
    columns = []
    for kind, values in draw(st.lists(st.sampled_from(TYPES), max_size=4)):
        columns.append((kind, draw(st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows))))
    times = draw(st.sampled_from([1, FEW_ROWS // 3, FEW_ROWS * 5]))
    return texts * times, [(kind, values * times) for kind, values in columns]


@settings(deadline=None)
@given(tables())
def test_folded_arguments_are_those_of_the_text_and_the_columns(table: Any) -> None:
    texts, columns = table
    typed = {f'key "{number}"': pa.array(values, kind) for number, (kind, values) in enumerate(columns)}
    folded = fold_args(pa.array(texts, pa.string()), typed).to_pylist()
    assert len(folded) == len(texts)
    for row, text in enumerate(texts):
        members = {
            key: value_of(column.type, column[row].as_py()) for key, column in typed.items() if column[row].is_valid
        }
        if not members:
            assert folded[row] == text
        else:
            expected = (json.loads(text) if text else {}) | members
            assert repr(json.loads(folded[row])) == repr(expected), "in the same order, -0.0 apart from 0.0"


def test_the_text_comes_first_and_unchanged() -> None:
    folded = fold_args(pa.array(['{"price": 1.50}', None]), {"n": pa.array([1, 2])})
    assert folded.to_pylist() == ['{"price": 1.50,"n":1}', '{"n":2}']


def test_slices_of_columns_are_joined_as_they_are() -> None:
    numbers = pa.array([None if number % 3 else number for number in range(1000)])
    words = pa.array([f"w{number % 5}" for number in range(1000)]).dictionary_encode()
    for start, count in ((0, 1000), (1, 999), (7, 64), (500, 0)):
        part, word = numbers.slice(start, count), words.slice(start, count)
        rows = join_rows(["<", Cells("n=", part, ";"), Cells("", as_text(word)), ">"], count).to_pylist()
        assert rows == [
            f"<{'' if number % 3 else f'n={number};'}w{number % 5}>".encode() for number in range(start, start + count)
        ]


def test_many_sets_of_columns_and_many_columns() -> None:
    chance = random.Random(5)
    rows = 4000
    sets = [[chance.random() < 0.5 for _ in range(60)] for _ in range(300)]
    chosen = [chance.choice(sets if number % 2 else sets[:2]) for number in range(rows)]
    columns = [pa.array([number if has[key] else None for number, has in enumerate(chosen)]) for key in range(60)]
    joined = join_rows([Cells(f"{key}:", column, " ") for key, column in enumerate(columns)], rows).to_pylist()
    for number, has in enumerate(chosen):
        assert joined[number].decode() == "".join(f"{key}:{number} " for key in range(60) if has[key])


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([1.0, 0.1, None, -0.0, 1e22], ["1.0", "0.1", None, "-0.0", "1e+22"]),
        ([math.nan, math.inf, -math.inf, 2.5, None], ['"NaN"', '"Infinity"', '"-Infinity"', "2.5", None]),
        (["a", 'b"', None, "c\\", ""], ['"a"', '"b\\""', None, '"c\\\\"', '""']),
        (['"', None], ['"\\""', None]),
    ],
    ids=["floats", "no numbers", "texts", "one text"],
)
def test_cells(values: list[Any], cells: list[str | None]) -> None:
    assert json_cells(pa.array(values)).to_pylist() == cells
    assert json_cells(pa.array(values).dictionary_encode()).to_pylist() == cells
