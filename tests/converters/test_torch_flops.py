"""The table of PyTorch's FlopCounterMode: modules, operators, suffixes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import UnknownFormat
from ktrace.input.detection import choose
from ktrace.input.source import Source

NESTED = SAMPLES / "torch-flops" / "a-module-in-a-module.txt"
ROUNDED = SAMPLES / "torch-flops" / "indented-and-rounded-after-log-lines.txt"
MADE = SHARED / "corpus" / "made" / "pytorch_single" / "flop_counter.txt"


def figures(path: Path) -> list[tuple[str, str, float, float, str]]:
    rows = ktrace.read(path).to_arrow()["summaries"].to_pylist()
    assert {(row["metric"], row["unit"]) for row in rows} == {("FLOPs", "FLOP")}
    return [(row["kind"], row["name"], row["value"], row["percent"], " ".join(row["scope"])) for row in rows]


def test_modules_and_operators() -> None:
    assert figures(NESTED) == [
        ("range", "Net", 30_500, 100, "Net"),
        ("op", "aten.mm", 24_500, 80.33, "Net"),
        ("op", "aten.bmm", 6_000, 19.67, "Net"),
        ("range", "Net.body", 24_500, 80.33, "Net body"),
        ("op", "aten.mm", 24_500, 80.33, "Net body"),
        ("range", "Net.body.0", 14_250, 46.72, "Net body 0"),
        ("op", "aten.mm", 14_250, 46.72, "Net body 0"),
    ]


def test_prefixes_indents_and_large_numbers() -> None:
    found = figures(ROUNDED)
    assert len(found) == 8
    assert [row[1] for row in found if row[0] == "op"] == [
        "aten.mm",
        "aten._flash_attention_forward",
        "aten.mm",
        "aten.mm",
    ]
    assert found[0] == ("total", "Global", 812_004_000_000, 100, "Global")
    assert ("range", "Decoder.layer 1", 0, 0, "Decoder layer 1") in found
    assert found[-1] == ("total", "Global", 0, 0, "Global")
    tables = ktrace.read(ROUNDED).to_arrow()["summaries"]
    assert set(tables["table"].to_pylist()) == {0, 1}
    assert tables["args"][0].as_py() == '{"FLOP":"812.004B"}'


def test_the_summary_has_the_share_of_each_operator_once() -> None:
    groups = ktrace.summary(NESTED, by=["kernel"]).groups["kernel"]
    assert [(group.key, group.total) for group in groups] == [("aten.mm", 80.33), ("aten.bmm", 19.67)]


def test_a_cut_row_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(NESTED.read_text("utf-8").rstrip()[:-20])
    report = ktrace.read(path).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"cut": 1}
    assert report.rows["summaries"] == 6


@pytest.mark.parametrize(
    "text", ["Module FLOP % Total\n", "Module  FLOP  % Total\nNet  3  100%\n", "a % Total b\n---  ---\n"]
)
def test_other_text_is_not_a_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(UnknownFormat):
        choose(Source(str(tmp_path / "x.txt")))


@pytest.mark.skipif(not MADE.exists(), reason="the real files are not at hand (../shared/corpus)")
def test_a_real_table_has_the_total_that_pytorch_computed() -> None:
    """INDEX.tsv: 1294336 by the counter's own method; operators of a module add up to it."""
    found = figures(MADE)
    assert found[0] == ("range", "MLP", 1_294_336, 100, "MLP")
    for module in ("MLP", "MLP a", "MLP b"):
        whole = next(flop for kind, _, flop, _, scope in found if (kind, scope) == ("range", module))
        assert sum(flop for kind, _, flop, _, scope in found if (kind, scope) == ("op", module)) == whole
    assert len(found) == 9
