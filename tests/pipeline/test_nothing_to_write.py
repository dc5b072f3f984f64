"""A conversion that would write no row fails, and says what it saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ktrace
from ktrace.errors import InputError


@pytest.mark.parametrize("name", ["out.perfetto", "out.trace.json", "out.parquet", "out.csv", "out.jsonl", "out.json"])
def test_no_row_is_an_error_in_every_output(name: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]}))
    with pytest.raises(InputError, match=r"nothing to write: 1 record gave 0 rows") as caught:
        ktrace.convert(path, tmp_path / name)
    assert caught.value.path == str(path)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="nothing to write"):
        ktrace.merge([path], tmp_path / name)


def test_the_catalog_alone_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "empty.trace.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]}))
    assert ktrace.convert(path, tmp_path / "facts.csv", table="catalog").balanced()
    assert "process" in (tmp_path / "facts.csv").read_text()
