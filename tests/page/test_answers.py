"""The charts of answers on the page of a summary."""

from __future__ import annotations

import re

from conftest import SAMPLES

import ktrace
from ktrace.page import summary_page
from ktrace.page.blocks import Lists, Plot
from ktrace.page.render import rendered
from ktrace.page.summary_page import Point, roofline

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def test_idle_time_by_cause_and_by_what_the_host_did() -> None:
    summary = ktrace.summary(STEP, by=["idle", "operation"])
    section = summary_page.idle(summary)
    assert section is not None
    (lists,) = section.blocks
    assert isinstance(lists, Lists)
    (_, causes), (_, spans) = lists.lists
    shares = [float(str(row.figure).rstrip("%")) for row in causes.rows]
    assert abs(sum(shares) - 100) < 0.2 and shares == sorted(shares, reverse=True)
    late = float(str(causes.rows[0].detail).split()[0])
    hosts = sum(float(row.detail.split()[0]) for row in spans.rows if row.detail.endswith(" us"))
    assert abs(hosts - late) < 0.5, "what the host did adds up to the gaps that it decided"
    page = rendered(summary.tables(), "html", title="step", subject=summary)
    assert re.search(r'<section id="idle">\s*<h2>Why devices are idle</h2>', page)
    assert page.index('<p class="verdict">') < page.index('<dl class="keys">')


def test_what_to_look_at_first_is_a_list_as_on_the_terminal() -> None:
    summary = ktrace.summary(STEP, by=["idle", "operation"])
    page = rendered(summary.tables(), "html", title="step", subject=summary)
    items = re.findall(r"<li><b>(.*?)</b> <b>(.*?)</b> <span>(.*?)\n?</span></li>", page, re.S)
    assert [(share, time) for share, time, _ in items[:2]] == [("12.1%", "117 us"), ("12.1%", "117 us")]
    assert items[0][2].startswith("exposed communication") and "Try: Overlap it with compute" in items[0][2]
    assert "1 of 8 ranks is here" in items[0][2]
    assert "Look first at" not in page and "Device 0 is busy for <b>86.4%</b>" in page
    assert page.index('<ol class="look">') < page.index('<dl class="keys">')


def test_a_page_without_anything_to_look_at_has_no_list() -> None:
    summary = ktrace.summary(SAMPLES / "nccl-tests/all-reduce-of-two-ranks.log", by=["operation"])
    page = rendered(summary.tables(), "html", title="tables", subject=summary)
    assert '<ol class="look">' not in page


def test_without_an_answer_there_is_no_section() -> None:
    assert summary_page.idle(ktrace.summary(STEP, by=["operation"])) is None


def test_the_roofline_has_a_circle_for_each_operator_below_its_roof() -> None:
    summary = ktrace.summary(SAMPLES / "kineto/shapes-of-products-attention-copies.json", by=["roofline"])
    section = summary_page.machine(summary, {})
    assert section is not None
    (plot,) = section.blocks
    assert isinstance(plot, Plot)
    circles = re.findall(
        r'<circle class="k1 dot" cx="([\d.]+)%" cy="([\d.]+)%" r="([\d.]+)"><title>(.*?)\n', plot.chart
    )
    assert [title.split()[0] for *_, title in circles] == [
        "aten::addmm", "aten::_flash_attention_forward", "aten::mm", "aten::cudnn_convolution",
    ]  # fmt: skip
    assert circles[0][2] == "13.5"  # 201 of 283 us: 16 pixels times the root of 0.71
    assert "bf16 989.5" in plot.chart and "tf32 494.5" in plot.chart


def test_a_point_on_the_roof_is_drawn_on_the_line() -> None:
    chart = roofline(
        [Point(10.0, 10.0, 1.0, "on the slope"), Point(1000.0, 100.0, 0.0, "at the peak")], {"fp16": 100.0}, 1000.0
    )
    slope = re.search(r'class="mark" x1="([\d.]+)%" x2="([\d.]+)%" y1="([\d.]+)%" y2="([\d.]+)%"><title>memory', chart)
    dots = [tuple(map(float, dot)) for dot in re.findall(r'cx="([\d.]+)%" cy="([\d.]+)%"', chart)]
    assert slope
    x1, x2, y1, y2 = map(float, slope.groups())
    (x, y), peak = dots
    assert abs(y - (y1 + (y2 - y1) * (x - x1) / (x2 - x1))) < 0.1
    assert abs(peak[1] - y2) < 0.1


def test_a_table_has_no_column_without_a_value() -> None:
    summary = ktrace.summary(STEP, by=["shape", "launch"])
    page = rendered(summary.tables(), "html", title="step", subject=summary)
    tables = re.findall(r'<table class="figures" data-name="(.*?)">(.*?)</table>', page, re.S)
    assert len(tables) > 3
    for name, table in tables:
        heads = len(re.findall("<th[ >]", table))
        rows = [re.findall(r"<td.*?>(.*?)</td>", row, re.S) for row in re.findall(r"<tr>\s*<td.*?</tr>", table, re.S)]
        assert rows and {len(row) for row in rows} == {heads}, name
        cells = [[re.sub("<.*?>", "", cell).strip() for cell in row] for row in rows]
        assert all(any(column) for column in list(zip(*cells, strict=True))[1:]), name
