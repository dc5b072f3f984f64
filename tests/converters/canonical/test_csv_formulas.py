"""CSV for spreadsheets: no text becomes a formula, and every text comes back as it was."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import ktrace
from ktrace.errors import UsageError

NAMES = [
    "=cmd|'/c calc'!A1",
    "+1",
    "-[MTLBuffer length]",
    "@sum",
    "\tx",
    "\rx",
    "'=1",
    "''-1",
    "'quoted'",
    "'",
    "''",
    "plain = text",
    "x",
]
EVALUATED = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {
            **{"record": "event", "source": name, "id": number, "ts": -number, "dur": 1, "kind": "op", "name": name},
            **{"timing": "measured", "x_note": name, "args": {name: name}, "value": -1.5},
        }
        for number, name in enumerate(NAMES, 1)
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"ktrace": "1.0"}, *rows])) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("formulas", [False, True])
def test_no_cell_is_a_formula_and_all_texts_come_back(trace: Path, tmp_path: Path, formulas: bool) -> None:
    out, back = tmp_path / "out.csv", tmp_path / "back.jsonl"
    ktrace.convert(trace, out, formulas=formulas)
    with out.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    texts = [row[column] for row in rows for column in ("source", "name", "x_note")]
    assert len(texts) == 3 * len(NAMES)
    assert any(text.startswith(EVALUATED) for text in texts) == formulas
    assert [row["ts"] for row in rows] == [str(-number) for number in range(1, len(NAMES) + 1)], "numbers stay"
    assert {row["value"] for row in rows} == {"-1.5"}
    if formulas:
        assert [row["name"] for row in rows[:6]] == NAMES[:6]
    assert ktrace.validate(out).faults == []
    ktrace.convert(out, back)
    ktrace.convert(trace, tmp_path / "plain.jsonl")
    assert back.read_text("utf-8") == (tmp_path / "plain.jsonl").read_text("utf-8")


def test_only_csv_has_formulas(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--formulas is for CSV"):
        ktrace.convert(trace, tmp_path / "out.jsonl", formulas=True)
