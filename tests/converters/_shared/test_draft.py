"""Members of events become columns cell by cell: a value that a column can't hold stays an argument alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ktrace.converters._shared.trace_json.draft import _MOVES


@pytest.mark.parametrize(
    ("how", "column", "taken", "rest"),
    [
        ("int32", pa.array([96, 99999999999, None, 96]), [96, None, None, 96], [None, 99999999999, None, None]),
        ("int32", pa.array([b"96", b'"x"', b"99999999999"]), [96, None, None], [None, b'"x"', b"99999999999"]),
        ("int32", pa.array([2**31 - 1, -(2**31)]), [2**31 - 1, -(2**31)], None),
        ("ordinal", pa.array([0, -1, 1]), [0, None, 1], [None, -1, None]),
        ("ordinal", pa.array([b"0", b"-1", b'"x"']), [0, None, None], [None, b"-1", b'"x"']),
    ],
)
def test_a_bad_cell_costs_itself(how: str, column: pa.Array, taken: list[object], rest: list[object] | None) -> None:
    column_of, left = _MOVES[how](column)
    assert column_of.to_pylist() == taken
    assert (left.to_pylist() if left is not None else None) == rest
