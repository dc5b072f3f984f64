"""The golden rows notice what they are for: a forgotten account, a dropped total, skips that nobody declared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import golden
import pytest
from conftest import SAMPLES

from ktrace.kit.text.lines import LineAccount
from ktrace.model.row_builder import RowBuilder

BOX = "a-drawn-box-marks-of-markdown-and-totals.md"


@pytest.mark.parametrize("name", ["table", "doppler", "metallic"])
def test_a_reader_that_forgets_to_account_for_good_lines_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineAccount, "used", lambda self, lines=1: None)
    for path in golden.samples_of(name):
        report = golden.read(path, name).report
        assert report.reader.balanced(), "the balance doesn't notice it"
        assert golden.skips(report) != golden.load(name)[path.name]["skips"]


def test_a_dropped_total_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    add = RowBuilder.summary

    def summary(self: RowBuilder, kind: str, name: str, **columns: Any) -> int:
        return 0 if kind == "total" else add(self, kind, name, **columns)

    monkeypatch.setattr(RowBuilder, "summary", summary)
    written, found = golden.load("table")[BOX], golden.golden(golden.read(SAMPLES / "table" / BOX, "table"))
    assert found["rows"].keys() == written["rows"].keys() - {"summaries total duration"}
    assert found["records"] == written["records"], "the account doesn't notice it"


def test_skips_are_written_only_where_they_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLES / "mlc", tmp_path / "samples/mlc")
    written = golden.file_of("mlc").read_text("utf-8")
    monkeypatch.setattr(golden, "SAMPLES", tmp_path / "samples")
    monkeypatch.setattr(golden, "ROWS", tmp_path / "rows")
    assert golden.main(["--format", "mlc"]) == 1
    assert "mlc/two-dialects-and-a-peak-that-disagrees.md: leaves out {'unrecognised': 1}" in capsys.readouterr().out
    assert set(golden.load("mlc")) == {"columns-in-another-order-bom-crlf.txt"}
    assert golden.main(["--format", "mlc", "--accept-skips"]) == 0
    assert golden.file_of("mlc").read_text("utf-8") == written
    assert golden.main(["--format", "mlc"]) == 0
