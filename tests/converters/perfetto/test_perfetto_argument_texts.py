"""Argument texts as columns: the same values, or none where the texts must be taken as they are."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from ktrace.converters.perfetto.writing.arguments import ArgumentTexts
from ktrace.model.json_text import decoded

OBJECTS: list[dict[str, Any]] = [
    {"External id": 1, "dims": [[4, 8], []], "share": 0.5, "on": True},
    {"External id": 2, "dims": [[4, 8], []], "share": 2, "name": "grün"},
    {"External id": -(2**63), "share": None, "inner": {"a": [1, "x"]}},
    {"External id": 2**70, "": "", "share": 1.5},
    {},
]


def values_of(columns: dict[str, pa.Array], rows: int) -> list[dict[str, Any]]:
    """The objects that columns stand for: binary values are JSON texts."""
    found: list[dict[str, Any]] = [{} for _ in range(rows)]
    for key, column in columns.items():
        plain = decoded(column)
        for row, value in enumerate(plain.to_pylist()):
            if value is not None:
                found[row][key] = json.loads(value) if pa.types.is_binary(plain.type) else value
    return found


@pytest.mark.parametrize("dictionary", [False, True])
def test_columns_have_the_values_of_the_texts(dictionary: bool) -> None:
    column = pa.array([*map(json.dumps, OBJECTS), None])
    columns = ArgumentTexts().columns(column.dictionary_encode() if dictionary else column)
    assert columns is not None
    assert values_of(columns, 6) == [*OBJECTS, {}]


def test_keys_that_come_late_are_learnt() -> None:
    texts = ArgumentTexts()
    for count in (10, 2000):
        objects = [{"a": number} | ({"late": "x"} if number == count - 2 else {}) for number in range(count)]
        columns = texts.columns(pa.array(map(json.dumps, objects)))
        assert columns is not None
        assert values_of(columns, count) == objects


@pytest.mark.parametrize(
    "text",
    [
        '{"quote \\" and \\n": 1}',
        "[1]",
        "1",
        '{"a": ',
        '{"a": "\\ud800"}',
        "{" * 5000,
        "",
        '{"a":1}},{"cat":"of","args":{"a":1}',
    ],
)
def test_texts_that_are_no_object_are_left_alone(text: str) -> None:
    assert ArgumentTexts().columns(pa.array(['{"a": 1}', '{"a": 2}', text])) is None


def test_few_distinct_texts_are_left_alone() -> None:
    assert ArgumentTexts().columns(pa.array(['{"a": 1}', '{"a": 2}'] * 20)) is None


def test_texts_with_too_many_keys_are_left_alone() -> None:
    texts = ArgumentTexts()
    many = pa.array([json.dumps({f"key {number}": number}) for number in range(500)])
    assert texts.columns(many) is None
    assert texts.columns(many) is None
