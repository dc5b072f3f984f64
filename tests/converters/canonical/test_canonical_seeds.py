"""Every real seed, written to every canonical form and read back: the same trace, field for field, and valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nightly import few

import ktrace
from ktrace.pipeline.validate import validate


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "json", "parquet", "parquet/", "csv"])
@pytest.mark.parametrize("number", few(range(5), 2))
def test_a_seed_comes_back_equal(number: int, form: str, seed: Callable[[int], Path], tmp_path: Path) -> None:
    trace = ktrace.read(seed(number))
    out = f"{tmp_path}/out.{form}"
    report = trace.write(out)
    tables = trace.to_arrow()
    assert report.written == sum(tables[record].num_rows for record in ("events", "summaries", "links")) > 0
    assert ktrace.read(out).equals(trace)
    result = validate(out)
    assert result.faults == []
    assert result.checked == sum(table.num_rows for table in tables.values())
