"""The charts of answers: why devices are idle, how near the work is to what the machine can do.

why idle    host late         ███████  89.0%        aten::addmm   ███  the host in the gaps
            launch overhead   █        11.0%        cudaMalloc    █
roofline    TFLOP/s over FLOP/byte   (roofline_chart.py)
"""

from __future__ import annotations

from collections import Counter

from ktrace.analysis.idle.answer import IdleAnswer
from ktrace.analysis.roofline.answer import RooflineAnswer
from ktrace.analysis.summary.summary import Summary
from ktrace.page.blocks import Bars, Lists, Plot, Row, Section, named, share
from ktrace.page.charts import bar
from ktrace.page.roofline_chart import Point, roofline
from ktrace.tables.figures import brief, duration

#: How many spans of the host are drawn.
_SPANS = 8

#: How many operators the roofline shows.
_OPERATORS = 60


def idle(summary: Summary) -> Section | None:
    """The idle time of all devices by cause, and what the host did in the gaps that it decided."""
    answer = summary.answers.get("idle")
    if not isinstance(answer, IdleAnswer):
        return None
    causes: Counter[str] = Counter()
    spans: Counter[str] = Counter()
    for device in answer.devices:
        for cause in device.causes:
            causes[cause.cause] += cause.time
            for span in cause.host:
                spans[span.name] += span.time
    whole = causes.total()
    if not whole:
        return None
    lists = [("cause", _bars(causes, whole)), ("what the host did meanwhile", _bars(spans, whole))]
    hint = "Shares of the time in which devices had nothing to do between their first and their last work."
    return Section("idle", "Why devices are idle", hint, [Lists([(title, bars) for title, bars in lists if bars.rows])])


def machine(summary: Summary, colours: dict[str, str]) -> Section | None:
    """The roofline of each device whose peak rates are known; `colours` are those of operations."""
    answer = summary.answers.get("roofline")
    if not isinstance(answer, RooflineAnswer):
        return None
    plots = []
    for number, (device, peak) in enumerate(zip(answer.work, answer.peak_of, strict=True)):
        rates = [rate for rate in answer.operators if rate.item and rate.item.device == number]
        rates = [rate for rate in rates if rate.intensity and rate.tflops][:_OPERATORS]
        if peak is None or not rates:
            continue
        whole = sum(rate.time for rate in rates)
        used = {rate.item.precision for rate in rates if rate.item}
        ceilings = {name: rate for name, rate in peak.tflops.items() if name in used}
        points = [
            Point(
                rate.intensity or 0,
                rate.tflops or 0,
                rate.time / whole,
                f"{rate.key} {rate.item.shapes if rate.item else ''}\n{rate.tflops:,.4g} TFLOP/s,"
                f" {rate.intensity:,.4g} FLOP/byte, {duration(rate.time)}",
                colours.get(rate.item.operation if rate.item else "", "k1"),
            )
            for rate in rates
        ]
        plots.append(Plot(roofline(points, ceilings, peak.gb_per_s), f"{device.label}: FLOP/byte", "up: TFLOP/s"))
    hint = "Each circle is an operator with its shapes, as large as its time; the lines are what the device can do."
    return Section("roofline", "How near to the machine", hint, plots) if plots else None


def _bars(times: Counter[str], whole: int) -> Bars:
    """A bar for each of the longest times, and a line for the rest."""
    drawn = times.most_common(_SPANS)
    longest = drawn[0][1] if drawn else 0
    rows = [
        Row(
            named(name),
            bar(time, longest, "k1", f"{name}: {duration(time)}"),
            share(time, whole),
            f" {brief(time)}",
        )
        for name, time in drawn
    ]
    if rest := len(times) - len(drawn):
        time = times.total() - sum(time for _, time in drawn)
        rows.append(Row(named(f"{rest:,} more"), None, share(time, whole), f" {brief(time)}", rest=True))
    return Bars(rows)
