"""Members of events become columns cell by cell: a value that a column can't hold stays an argument alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ktrace.kit.columnar.dictionaries import used_words
from ktrace.kit.trace_json.draft import _MOVES
from ktrace.kit.trace_json.events import scalars


@pytest.mark.parametrize(
    ("how", "column", "taken", "rest"),
    [
        ("int32", pa.array([96, 99999999999, None, 96]), [96, None, None, 96], [None, 99999999999, None, None]),
        ("int32", pa.array([b"96", b'"x"', b"99999999999"]), [96, None, None], [None, b'"x"', b"99999999999"]),
        ("int32", pa.array([2**31 - 1, -(2**31)]), [2**31 - 1, -(2**31)], None),
        ("copy", pa.array([b'"HtoD"', b'"x"', b"1"]), ["HtoD", None, None], [None, b'"x"', b"1"]),
        (
            "int",
            pa.array([b"1234567890123456789", b"9223372036854775808"]),
            [1234567890123456789, None],
            [None, b"9223372036854775808"],
        ),
        ("ordinal", pa.array([0, -1, 1]), [0, None, 1], [None, -1, None]),
        ("ordinal", pa.array([b"0", b"-1", b'"x"']), [0, None, None], [None, b"-1", b'"x"']),
    ],
)
def test_a_bad_cell_costs_itself(how: str, column: pa.Array, taken: list[object], rest: list[object] | None) -> None:
    column_of, left = _MOVES[how](column)
    assert column_of.to_pylist() == taken
    assert (left.to_pylist() if left is not None else None) == rest


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        ([b'"a"', None, b'"b"', b'"a"'], pa.dictionary(pa.int32(), pa.string()), ["a", None, "b", "a"]),
        ([b"1", b"-2", None], pa.int64(), [1, -2, None]),
        ([b"1.5", None], pa.float64(), [1.5, None]),
        ([b"true", b"false"], pa.bool_(), [True, False]),
        ([b"1", b"1.5"], None, None),
        ([b"[1]"], None, None),
        ([b"1" * 20], None, None),
        ([b"1" * 4400], None, None),
    ],
)
def test_values_of_one_kind_have_its_type(texts: list[bytes | None], kind: pa.DataType | None, values: Any) -> None:
    column = pa.array(texts, pa.binary()).dictionary_encode()
    found = scalars(column)
    assert found.type == (kind or column.type)
    assert found.to_pylist() == (values or texts)


def test_only_words_that_rows_have_are_kept_in_the_order_of_rows() -> None:
    words = pa.array(["a", "b", "c", "d"])
    column = pa.DictionaryArray.from_arrays(pa.array([3, None, 1, 3], pa.int32()), words)
    found = used_words(column)
    assert found.to_pylist() == column.to_pylist()
    assert found.dictionary.to_pylist() == ["d", "b"]
    whole = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 0], pa.int32()), words)
    assert used_words(whole) is whole
