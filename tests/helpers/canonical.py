"""Traces made up by hypothesis, for the tests of the canonical formats: every column, nulls, odd values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ktrace.model.batch import Batch, is_required
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import to_batch
from ktrace.model.schema import RECORDS, fields
from ktrace.trace.trace import Trace

TEXTS = st.one_of(
    st.sampled_from(
        ["", "a,b", 'say "x"', "tab\tline\nend", "cr\r", "\\", "Ω 中 😀", "\0", "NaN", "null", "12", "#", " x "]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
FLOATS = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, 0.1, 1e22, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf")]
    ),
    st.floats(),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), FLOATS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, JSON, min_size=1, max_size=3)


def _values(spec: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema allows for a column."""
    if spec["x-arrow"] == "json":
        return OBJECTS
    if "enum" in spec:
        return st.sampled_from(spec["enum"])
    if spec["x-arrow"] == "float64":
        return FLOATS
    if "anyOf" in spec:
        return st.sampled_from([*spec["anyOf"][0]["enum"], "x_theirs"])
    if spec["type"] == "integer":
        return st.one_of(
            st.sampled_from([spec["minimum"], spec["maximum"]]), st.integers(spec["minimum"], spec["maximum"])
        )
    if spec["type"] == "array":
        return st.lists(TEXTS, max_size=3)
    return TEXTS.filter(bool) if "minLength" in spec else TEXTS


@st.composite
def rows(draw: st.DrawFn, record: str) -> list[dict[str, Any]]:
    """Rows of a record, a few of its columns filled."""
    specs = fields(record)
    optional = [name for name in specs if not is_required(record, name)]
    used = draw(st.lists(st.sampled_from(optional), max_size=8, unique=True))
    found = []
    for number in range(draw(st.integers(0, 4))):
        row = {name: draw(_values(spec)) for name, spec in specs.items() if is_required(record, name)}
        row["source"] = draw(st.sampled_from(["run", "run#2"]))
        row["id"] = RECORDS.index(record) * 100 + number
        row |= {name: draw(st.one_of(st.none(), _values(specs[name]))) for name in used}
        if draw(st.booleans()):
            row |= {"x_count": draw(st.integers(-5, 5)), "x_text": draw(st.sampled_from(["one", "two", "é,"]))}
        for name in ("args", "facts"):
            if isinstance(row.get(name), dict):
                row[name] = dump_json(row[name])
        found.append(row)
    return found


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Batches of all records."""
    return [to_batch(record, found) for record in RECORDS if (found := draw(rows(record)))]


def trace(found: list[Batch]) -> Trace:
    """The trace that the batches make."""
    return Trace(found)
