"""One bad value costs its cell or its record, never the file: in the parts that several formats share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from bad_values import DIGITS, converted, details

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.text.json_items import plain_value
from ktrace.kit.text.numbers import quantity
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.fitting import as_int64, whole_of
from ktrace.model.json_text import (
    MOST_LEVELS,
    decode_document,
    dump_json,
    json_decoder,
    load_json,
    load_object,
    refuse_deep,
)
from ktrace.model.row_builder import RowBuilder, to_batch, to_rows
from ktrace.report import Report
from ktrace.stages.layout import layout
from ktrace.stages.order import order

# The shared helpers.


def test_whole_numbers_fit_64_bits_or_are_none() -> None:
    assert [as_int64(value) for value in (0, -(2**63), 2**63 - 1)] == [0, -(2**63), 2**63 - 1]
    assert [as_int64(value) for value in (2**63, -(2**63) - 1, True, 1.0, "1", None)] == [None] * 6
    assert [whole_of(text) for text in ("7", "-7", "0" * 300 + "7")] == [7, -7, 7]
    assert [whole_of(text) for text in (DIGITS, "²", "1e3", "", "9223372036854775808")] == [None] * 5
    assert as_int64(5, 0, 4) is None


def test_json_with_numbers_that_python_refuses_is_read() -> None:
    assert load_json(f'{{"a": {DIGITS}, "b": 1}}') == {"a": DIGITS, "b": 1}
    assert decode_document(f"[1e400, 2, {DIGITS}]".encode()) == ["1e400", 2, DIGITS]
    assert json.loads(dump_json({"a": 16**5000})) == {"a": f"0x1{'0' * 5000}"}
    deep = "[" * 100_000 + "]" * 100_000
    assert load_object(deep) == {"$json": deep}
    with pytest.raises(ValueError, match="nested too deeply"):
        load_json(deep)
    with pytest.raises(ValueError, match="Expecting"):
        load_json("{")


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_more_than_a_thousand_levels_are_refused_whatever_the_parser_takes(opened: str, closed: str) -> None:
    shallow, deep = ((opened * levels + "1" + closed * levels).encode() for levels in (MOST_LEVELS, MOST_LEVELS + 1))
    refuse_deep(shallow)
    refuse_deep(b"[%b]" % b",".join([b'{"a":[1]}'] * 5_000))
    refuse_deep(b'["%b"]' % (b"[" * 5_000))
    with pytest.raises(RecursionError, match="nested too deeply"):
        refuse_deep(deep)
    with pytest.raises(RecursionError):
        json_decoder(msgspec.Raw)(deep)


def test_a_value_as_deep_as_the_parser_takes_is_written_from_a_deeper_stack() -> None:
    value = load_json("[" * 900 + "1e400" + "]" * 900)

    def below(levels: int) -> str:
        return below(levels - 1) if levels else dump_json(value)

    assert below(300) == "[" * 900 + '"Infinity"' + "]" * 900
    found, depth = plain_value(value), 0
    while isinstance(found, list):
        [found], depth = found, depth + 1
    assert depth == 101
    assert found == "[" * 799 + "Infinity" + "]" * 799


def test_a_row_without_a_name_is_reported_and_kept() -> None:
    report = Report()
    block = Block("rows row", pa.array([1, 2]), {})
    made = BatchBuilder(Conversion(report)).events(block, np.array([1, 2]), kind="kernel", name=pa.array(["a", None]))
    assert made.column("name").to_pylist() == ["a", "[no name]"]
    assert report.issues["missing-string"].rows == 1
    without = BatchBuilder(Conversion(report)).events(block, np.array([1, 2]), kind="kernel")
    assert without.column("name").to_pylist() == ["[no name]"] * 2


def test_a_whole_number_that_no_float_is_stays_as_it_is() -> None:
    """The nearest float to the largest of 64 bits is beyond them."""
    largest = 2**63 - 1
    batches = BatchBuilder(Conversion(Report()))
    made = batches.batch("summaries", np.array([1, 2]), kind="metric", name="m", avg=pa.array([largest, 3]))
    assert made.column("avg").to_pylist() == [None, 3.0]
    assert made.column("args.$avg").to_pylist() == [largest, None]


def test_the_facts_of_the_catalog_may_have_a_number_of_any_length() -> None:
    catalog = Catalog()
    row = {"entity": "device", "source": "run", "id": 1, "device": 0, "facts": f'{{"cores": {DIGITS}, "name": "x"}}'}
    catalog.add(to_batch("catalog", [row]))
    [entry] = catalog
    assert entry.facts == {"cores": DIGITS, "name": "x"}


def test_a_figure_beyond_10_to_the_400_is_no_number() -> None:
    assert quantity("1e999999999") is None
    assert quantity("1e-999999999") is None
    assert quantity(DIGITS) is None
    found = quantity("1e300 ms")
    assert found is not None
    assert (float(found.number), found.unit) == (1e300, "ms")


# Rows built one by one.


def rows_of(builder: RowBuilder) -> list[dict[str, Any]]:
    return [row for batch in builder.rest() for row in to_rows(batch)]


def test_a_row_keeps_values_that_do_not_fit_their_columns_as_arguments() -> None:
    report = Report()
    builder = RowBuilder(Conversion(report))
    report.record(3)
    builder.event("kernel", "a", ts=1, dur=2, grid_x=10**30, device="no number", args={"own": 1})
    builder.event("kernel", "half \ud800 pair", ts=2, dur=2, args={"text": "\udfff"})
    builder.event("kernel", "c", ts=10**30, dur=2)
    report.used(3)
    first, second = rows_of(builder)
    assert json.loads(first["args"]) == {"own": 1, "$grid_x": 10**30, "$device": "no number"}
    assert "grid_x" not in first
    assert second["name"] == "half \ufffd pair"
    assert json.loads(second["args"]) == {"text": "\ufffd"}
    assert (report.reader.taken, report.reader.given) == (3, 2)
    assert report.balanced() or report.rows_read == 0
    assert details(report, "bad-record") == ["ts is 1" + "0" * 30 + ", which isn't an integer of 64 bits"]
    assert report.issues["encoding"].rows == 1


def test_a_negative_count_of_a_row_is_an_argument() -> None:
    builder = RowBuilder(Conversion(Report()))
    builder.summary("kernel", "gemm", count=-2, args={"own": 1})
    builder.summary("kernel", "gemm", count=-3, args='{"own":2}')
    builder.summary("kernel", "gemm", count=0)
    found = [(row.get("count"), json.loads(row.get("args") or "{}")) for row in rows_of(builder)]
    assert found == [(None, {"own": 1, "$count": -2}), (None, {"own": 2, "$count": -3}), (0, {})]


def test_rows_that_fit_are_not_examined_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.model.row_builder.fitted", None)
    builder = RowBuilder(Conversion(Report()))
    builder.event("kernel", "a", ts=1, dur=2, grid_x=7)
    assert rows_of(builder)[0]["grid_x"] == 7


# Stages.


def test_an_empty_batch_does_not_shift_the_rows_of_a_timeline() -> None:
    """A reader may leave out all rows of a block: the rows of other blocks keep their own columns."""

    def batch(rows: list[dict[str, Any]]) -> Batch:
        return to_batch("events", [{"source": "run", "kind": "kernel", "timing": "measured", **row} for row in rows])

    first = batch([{"id": 1, "ts": 10, "dur": 1, "name": "first", "grid_x": 3}])
    empty = batch([{"id": 9, "ts": 0, "dur": 1, "name": "none", "pid": 7}])
    empty = Batch("events", empty.columns.slice(0, 0))
    last = batch([{"id": 2, "ts": 5, "dur": 1, "name": "last", "bytes": 4}])
    report = Report()
    report.rows["events"] = 2
    timeline = order([first, empty, last], report)
    rows = [row for some in timeline.batches() for row in to_rows(some.batch)]
    assert [(row["name"], row.get("grid_x"), row.get("bytes")) for row in rows] == [
        ("last", None, 4),
        ("first", 3, None),
    ]


def test_a_figure_too_wide_to_draw_is_reported_not_a_crash() -> None:
    summary = {"source": "run", "kind": "kernel", "metric": "duration", "unit": "ns"}
    rows = [{"id": 1, "name": "wide", "total": 1e300} | summary, {"id": 2, "name": "next", "total": 5.0} | summary]
    report = Report()
    report.rows["summaries"] = 2
    timeline = order(layout([to_batch("summaries", rows)], report), report)
    assert sum(len(batch) for batch in timeline.batches()) == 0
    assert report.issues["time-range"].rows == 2
    assert report.balanced()


def test_names_with_numbers_of_any_length_are_sorted(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    event = {"record": "event", "kind": "kernel", "timing": "measured", "name": "a", "dur": 5, "pid": 1}
    hosts = [f"node{DIGITS}", "node10", "node9"]
    lines = [event | {"source": host, "host": host, "id": id, "ts": 10} for id, host in enumerate(hosts)]
    log.write_text("\n".join(json.dumps(line) for line in [{"ktrace": "1.0"}, *lines]))
    report, _ = converted(log, "perfetto")
    assert report.written == 3
