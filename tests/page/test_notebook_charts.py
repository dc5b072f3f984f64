"""What a notebook shows of a summary and a comparison: figures as frames, charts as SVG, names without effects."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import OutputError, UsageError
from ktrace.tables import Column, Table
from ktrace.tables.frames import arrow_of

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def summary() -> ktrace.Summary:
    return ktrace.summary(STEP)


@pytest.fixture(scope="module")
def diff() -> ktrace.Diff:
    return ktrace.diff(*RANKS)


def texts(svg: str) -> list[str]:
    """The texts that are drawn, without the tooltips."""
    root = ET.fromstring(svg)
    for node in list(root.iter(f"{SVG}text")):
        for title in node.findall(f"{SVG}title"):
            node.text = title.tail
            node.remove(title)
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def shown_in(html: str) -> str:
    """The SVG in the image of some HTML."""
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert found
    return base64.b64decode(found[1]).decode()


def test_reprs_are_one_line_of_figures(summary: ktrace.Summary, diff: ktrace.Diff) -> None:
    assert repr(summary) == (
        "<Summary one-step-of-training.pt.trace: 15 device activities, 930.070 us; "
        "busy 86.4% of 962.021 us; top operation gemm 26.8%>"
    )
    assert repr(diff) == (
        "<Diff collectives-of-two-ranks-rank0.json to collectives-of-two-ranks-rank1.json: "
        "collectives-of-two-ranks-rank1.json takes as long as collectives-of-two-ranks-rank0.json: 1.30 ms a step; "
        "by kernel 0 clear, 0 new, 0 gone; by operation 0 clear, 0 new, 0 gone>"
    )
    tables = ktrace.summary(SAMPLES / "doppler/prefill-and-three-decodes.log")
    assert "statistics, " in repr(tables)
    assert len(repr(tables)) < 200


def test_frames_have_the_figures_of_the_groups(summary: ktrace.Summary) -> None:
    for by in ("kernel", "operation", "stream"):
        groups = summary.groups[by]
        frame = summary.to_pandas(by)
        assert frame[by].tolist() == [group.key for group in groups]
        assert frame["time_ns"].tolist() == [group.total for group in groups]
        assert str(frame["time_ns"].dtype) == "Int64"
        assert pl.from_arrow(summary.to_arrow(by))["median_ns"].to_list() == [group.median for group in groups]  # type: ignore[union-attr]
    assert summary.to_arrow().equals(summary.to_arrow("kernel"))
    assert summary.to_pandas("devices")["busy_ns"].tolist() == [use.busy for use in summary.devices]
    with pytest.raises(UsageError, match=r"no table 'kernels'\n  expected: kernel, "):
        summary.to_arrow("kernels")


def test_frames_have_the_figures_of_the_changes(diff: ktrace.Diff) -> None:
    frame = diff.to_pandas("operation")
    assert frame["operation"].tolist() == [change.key for change in diff.rows["operation"]]
    assert diff.to_arrow().column("kernel").to_pylist() == [change.key for change in diff.rows["kernel"]]
    assert "whole" in diff._by_name()


def test_an_empty_table_and_numbers_that_are_none() -> None:
    columns = (Column("name"), Column("time", "ns"), Column("share", "%"))
    empty = arrow_of(Table("a", "", columns, []))
    assert empty.num_rows == 0
    assert empty.schema.names == ["name", "time_ns", "share_percent"]
    filled = arrow_of(Table("a", "", columns, [("x", 1, float("nan")), (None, 2**62 + 1, 0.5)]))
    assert filled.to_pydict() == {"name": ["x", None], "time_ns": [1, 2**62 + 1], "share_percent": [None, 0.5]}


def test_the_drawing_is_a_svg_with_names_and_figures(summary: ktrace.Summary, tmp_path: Path) -> None:
    drawing = summary.plot()
    words = texts(drawing._repr_svg_())
    assert {"Device utilisation", "By operation", "gemm", "attention"} <= {*words}
    assert "26.8% 250 us" in words
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == f"{drawing.svg}\n"
    assert shown_in(drawing._repr_html_()) == drawing.svg
    with pytest.raises(OutputError, match="can't be written"):
        drawing.save(tmp_path)


def test_a_chart_is_named(summary: ktrace.Summary, diff: ktrace.Diff) -> None:
    kernels = texts(summary.plot("kernels").svg)
    assert kernels[0] == "Top kernels"
    assert "23.2% 216 us" in kernels
    assert texts(diff.plot().svg)[0] == "Changes by kernel"
    assert texts(diff.plot("operations").svg)[0] == "Operations before and after"
    with pytest.raises(UsageError, match=r"no chart 'kernel'\n  expected: devices, .*operations, kernels"):
        summary.plot("kernel")


def test_every_class_of_a_drawing_has_a_rule(summary: ktrace.Summary, diff: ktrace.Diff) -> None:
    drawings = [summary.plot(name) for name in ("devices", "operations", "kernels")] + [
        diff.plot(),
        diff.plot("devices"),
    ]
    for drawing in drawings:
        root = ET.fromstring(drawing.svg)
        style = next(root.iter(f"{SVG}style")).text or ""
        used = {
            word
            for shape in ("rect", "path", "line", "circle")
            for node in root.iter(f"{SVG}{shape}")
            for word in node.get("class", "").split()
        }
        assert used
        assert [word for word in used if f".{word}" not in style] == []
        assert style.count(".ktrace ") >= style.count("{"), "rules don't reach beyond the drawing"


def test_html_is_small_and_has_the_key_figures(summary: ktrace.Summary, diff: ktrace.Diff) -> None:
    for subject, words in ((summary, ("86.4%", "top operation")), (diff, ("by kernel", "0 clear"))):
        html = subject._repr_html_()  # type: ignore[attr-defined]
        assert [word for word in words if word not in html] == []
        assert len(html) < 20_000
        ET.fromstring(html)


def evil(folder: Path, **more: Any) -> Path:
    path = folder / "evil.jsonl"
    name = '<img src=x onerror="alert(1)">\x1b[2J'
    row = {"record": "event", "source": "<b>", "kind": "kernel", "timing": "measured", "device": 0, "stream": 1}
    rows = [row | {"id": number, "ts": number * 10, "dur": 5, "name": f"{name}{number}"} | more for number in range(9)]
    path.write_text("\n".join(map(json.dumps, [{"ktrace": "1.0"}, *rows])))
    return path


def test_names_have_no_effect(tmp_path: Path) -> None:
    path = evil(tmp_path)
    summary, trace = ktrace.summary(path), ktrace.read(path)
    diff = trace.diff(trace)
    pages = [one._repr_html_() for one in (summary, trace, diff)]  # type: ignore[attr-defined]
    for html in [*pages, *map(shown_in, pages), summary.plot("kernels").svg, repr(diff)]:
        assert "<img src=x" not in html
        assert "\x1b" not in html
        assert "<b>:" not in html
    assert "\x1b" not in repr(summary)
