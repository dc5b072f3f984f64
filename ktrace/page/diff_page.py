"""The charts of a comparison: the whole, what changed most, operations before and after, the devices.

header      before, after, +2.0%
changes     softmax        │████  +180 us  +15.0%      slower to the right, faster to the left
            gemm      ██│         -90.0 us  -1.2%
operations  gemm  ▔▔▔▔▔▔ before
                  ██████ after
devices     before ██████▒▒░░
            after  ████████▒▒░
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change, DeviceChange
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.work.groups import heading_of
from ktrace.page.blocks import BarRow, Bars, KeyFigure, Legend, Section, named
from ktrace.page.charts import device_legend, device_row, diverging, pair
from ktrace.tables import brief, escape_controls, exact

#: The most that is drawn: changes of each table, operations, devices.
_CHANGES, _OPERATIONS, _DEVICES = 20, 14, 16

#: What the colours of changes mean.
_COLOURS = {
    "more": "slower",
    "less": "faster",
    "more unsure": "slower, perhaps noise",
    "less unsure": "faster, perhaps noise",
    "unclear": "within noise",
}


def charts(diff: Diff) -> list[Section]:
    """The parts of the page that the traces have figures for."""
    changes = [_changes(by, rows, diff) for by, rows in diff.rows.items()]
    parts = [*changes[:1], _operations(diff), *changes[1:], _devices(diff)]
    return [part for part in parts if part]


def key_figures(diff: Diff) -> list[KeyFigure]:
    """The boxes at the top of the page."""
    whole = diff.whole
    what = "work of a step" if diff.per == "step" else "work"
    figures: list[KeyFigure] = []
    each = " of a step" if diff.per == "step" else ""
    times = [(f"time{each}", diff.time), (what, whole if diff.unit == "ns" else None), (f"idle{each}", diff.idle)]
    for name, change in times:
        if change:
            judged = f", {change.verdict}" if change.verdict in (CLEAR, NOISE) else ""
            figures.append((name, _percent(change), _from_to(change, "ns") + judged))
    for by, rows in diff.rows.items():
        clear, new, gone = (sum(change.verdict == verdict for change in rows) for verdict in (CLEAR, NEW, GONE))
        figures.append(
            (
                f"by {heading_of(by, diff.b.work)}",
                f"{clear:,} clear",
                f"{new:,} new, {gone:,} gone, {len(rows):,} in all",
            )
        )
    return figures


def _changes(by: str, rows: Sequence[Change], diff: Diff) -> Section | None:
    """The largest changes as bars to both sides."""
    changed = sorted((change for change in rows if change.delta), key=lambda change: -abs(change.delta))
    if not changed:
        return None
    drawn, longest = changed[:_CHANGES], abs(changed[0].delta)
    lines = []
    for change in drawn:
        chart = diverging(change.delta, longest, _colour(change), _tooltip(change, diff))
        tags = [change.verdict] if change.verdict in (NEW, GONE) else []
        delta = f"+{brief(change.delta, diff.unit)}" if change.delta > 0 else brief(change.delta, diff.unit)
        lines.append(BarRow(named(change.key, *tags), chart, delta, f" {_percent(change)}"))
    if undrawn := len(rows) - len(drawn):
        lines.append(BarRow(named(f"{undrawn:,} more, changed less or not at all"), rest=True))
    each = " of one step" if diff.per == "step" else ""
    hint = f"The largest changes{each}: right is slower, left is faster."
    used = {_colour(change) for change in drawn}
    colours = Legend([(text, colour) for colour, text in _COLOURS.items() if colour in used])
    return Section(f"by-{by}", f"Changes by {heading_of(by, diff.b.work)}", hint, [Bars(lines, "names"), colours])


def _operations(diff: Diff) -> Section | None:
    rows = sorted(diff.rows.get("operation", []), key=lambda change: -max(change.total_a, change.total_b))[:_OPERATIONS]
    longest = max((max(change.total_a, change.total_b) for change in rows), default=0.0)
    if not longest:
        return None
    lines = []
    for change in rows:
        drawn = pair(change.total_a, change.total_b, longest, _tooltip(change, diff))
        lines.append(BarRow(named(change.key), drawn, _percent(change), f" {brief(change.total_b, diff.unit)}"))
    colours = Legend([(f"before: {diff.name_a}", "before"), (f"after: {diff.name_b}", "after")])
    return Section("operations", "Operations before and after", "Longest first.", [Bars(lines), colours])


def _devices(diff: Diff) -> Section | None:
    drawn = diff.devices[:_DEVICES]
    uses = [use for change in drawn for use in (change.a, change.b) if use]
    longest = max((use.span for use in uses), default=0)
    if not longest:
        return None
    lines = [line for change in drawn for line in _device(change, longest)]
    hint = "Busy time from the start of the first to the end of the last work, before and after."
    return Section("devices", "Device utilisation", hint, [Bars(lines), device_legend(uses)])


def _device(change: DeviceChange, longest: int) -> list[BarRow]:
    pairs = (("before", change.a), ("after", change.b))
    return [device_row(f"{change.label} {name}", use, longest) for name, use in pairs if use]


def _colour(change: Change) -> str:
    if change.verdict == NOISE:
        return "unclear"
    colour = "more" if change.delta > 0 else "less"
    return f"{colour} unsure" if change.verdict == UNKNOWN else colour


def _tooltip(change: Change, diff: Diff) -> str:
    """The change in words."""
    each = " a step" if diff.per == "step" else ""
    lines = [
        escape_controls(change.key),
        f"{exact(change.total_a, diff.unit)} to {exact(change.total_b, diff.unit)}{each}",
    ]
    if change.count_a is not None and change.count_b is not None:
        lines.append(f"{change.count_a:,g} to {change.count_b:,g} times{each}")
    lines.append(f"{change.verdict}: {escape_controls(change.why)}" if change.why else change.verdict)
    return "\n".join(lines)


def _from_to(change: Change, unit: str) -> str:
    return f"{brief(change.total_a, unit)} to {brief(change.total_b, unit)}"


def _percent(change: Change) -> str:
    """The change in percent; where that has too many digits, how many times as much."""
    if change.percent is None:
        return ""
    if abs(change.percent) >= 1000:
        return f"{change.total_b / change.total_a:,.0f}x"
    return "0.0%" if abs(change.percent) < 0.05 else f"{change.percent:+.1f}%"
