"""The notebook of the docs runs from top to bottom, and prints what it shows. Jupyter isn't needed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "docs/ktrace.ipynb"

#: What a cell needs beyond ktrace itself, by a word in it.
NEEDS = ("duckdb", "polars")


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """What the notebook says that the cell prints."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def test_every_cell_prints_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, Any] = {}
    skipped = []
    for cell in code_cells():
        code = "".join(cell["source"])
        missing = [name for name in NEEDS if f"import {name}" in code and importlib.util.find_spec(name) is None]
        skipped += missing
        if missing:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(NOTEBOOK), "exec"), names)
        assert printed.getvalue() == shown(cell), code
    assert names["trace"].events.shape[0] == 65
    if skipped:
        pytest.skip(f"all other cells ran; not installed: {', '.join(skipped)}")


def test_it_is_small_and_tells_nothing_of_where_it_was_made() -> None:
    assert NOTEBOOK.stat().st_size < 20_000
    cells = code_cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    told = json.dumps([cell["outputs"] for cell in cells])
    assert "/tmp" not in told
    assert "/work" not in told
