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

from ktrace.diff.model import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change, DeviceChange, Diff
from ktrace.page.blocks import bars, keys, legend, named, row, section
from ktrace.page.charts import diverging, pair
from ktrace.page.markup import Markup, tag
from ktrace.page.use_charts import device_legend, device_row
from ktrace.tables.figures import brief, exact, harmless

#: What is drawn at most: changes of each table, operations, devices.
_CHANGES, _OPERATIONS, _DEVICES = 20, 14, 16

#: What the colours of changes mean.
_COLOURS = {
    "more": "slower",
    "less": "faster",
    "more unsure": "slower, samples don't say if by chance",
    "less unsure": "faster, samples don't say if by chance",
    "unclear": "within noise",
}


def charts(diff: Diff) -> list[Markup]:
    """The parts of the page, those left out of which the traces say nothing."""
    changes = [_changes(by, rows, diff) for by, rows in diff.rows.items()]
    parts = [*changes[:1], _operations(diff), *changes[1:], _devices(diff)]
    return [part for part in parts if part]


def key_figures(diff: Diff) -> Markup:
    """The boxes in the head of the page."""
    whole = diff.whole
    what = "work of a step" if diff.per == "step" else "work"
    figures = []
    if diff.wall:
        figures.append(("time of a step", _percent(diff.wall), _from_to(diff.wall, "ns")))
    if diff.unit == "ns":
        known = f", {whole.verdict}" if whole.verdict in (CLEAR, NOISE) else ""
        figures.append((what, _percent(whole), _from_to(whole, diff.unit) + known))
    for by, rows in diff.rows.items():
        clear, new, gone = (sum(change.verdict == verdict for change in rows) for verdict in (CLEAR, NEW, GONE))
        figures.append((f"by {by}", f"{clear:,} clear", f"{new:,} new, {gone:,} gone, {len(rows):,} in all"))
    return keys(figures)


def _changes(by: str, rows: Sequence[Change], diff: Diff) -> Markup | None:
    """The greatest changes as bars to both sides."""
    changed = sorted((change for change in rows if change.delta), key=lambda change: -abs(change.delta))
    if not changed:
        return None
    drawn, longest = changed[:_CHANGES], abs(changed[0].delta)
    lines = []
    for change in drawn:
        chart = diverging(change.delta, longest, _colour(change), _told(change, diff))
        tags = [change.verdict] if change.verdict in (NEW, GONE) else []
        delta = tag("b", _signed(change.delta, diff.unit))
        value = tag("span", delta, " ", _percent(change), class_="value")
        lines.append(tag("li", named(change.key, *tags), chart, value))
    if rest := len(rows) - len(drawn):
        lines.append(tag("li", named(f"{rest:,} more, changed less or not at all"), class_="rest"))
    each = " of one step" if diff.per == "step" else ""
    hint = f"The greatest changes{each}: to the right slower, to the left faster."
    used = {_colour(change) for change in drawn}
    colours = legend((text, colour) for colour, text in _COLOURS.items() if colour in used)
    return section(f"by-{by}", f"Changes by {by}", hint, bars(lines, "names"), colours)


def _operations(diff: Diff) -> Markup | None:
    rows = sorted(diff.rows.get("operation", []), key=lambda change: -max(change.total_a, change.total_b))[:_OPERATIONS]
    longest = max((max(change.total_a, change.total_b) for change in rows), default=0.0)
    if not longest:
        return None
    lines = []
    for change in rows:
        drawn = pair(change.total_a, change.total_b, longest, _told(change, diff))
        lines.append(row(change.key, drawn, tag("b", _percent(change)), " ", brief(change.total_b, diff.unit)))
    colours = legend([(f"before: {diff.name_a}", "before"), (f"after: {diff.name_b}", "after")])
    return section("operations", "Operations before and after", "The heaviest first.", bars(lines), colours)


def _devices(diff: Diff) -> Markup | None:
    drawn = diff.devices[:_DEVICES]
    uses = [use for change in drawn for use in (change.a, change.b) if use]
    longest = max((use.span for use in uses), default=0)
    if not longest:
        return None
    lines = [line for change in drawn for line in _device(change, longest)]
    hint = "Busy time from the begin of the first to the end of the last work, before and after."
    return section("devices", "Use of devices", hint, bars(lines), device_legend(uses))


def _device(change: DeviceChange, longest: int) -> list[Markup]:
    pairs = (("before", change.a), ("after", change.b))
    return [device_row(f"{change.label} {name}", use, longest) for name, use in pairs if use]


def _colour(change: Change) -> str:
    if change.verdict == NOISE:
        return "unclear"
    colour = "more" if change.delta > 0 else "less"
    return f"{colour} unsure" if change.verdict == UNKNOWN else colour


def _told(change: Change, diff: Diff) -> str:
    """The change in words, for a tooltip."""
    each = " a step" if diff.per == "step" else ""
    lines = [harmless(change.key), f"{exact(change.total_a, diff.unit)} to {exact(change.total_b, diff.unit)}{each}"]
    if change.count_a is not None and change.count_b is not None:
        lines.append(f"{change.count_a:,g} to {change.count_b:,g} times{each}")
    lines.append(f"{change.verdict}: {harmless(change.why)}" if change.why else change.verdict)
    return "\n".join(lines)


def _from_to(change: Change, unit: str) -> str:
    return f"{brief(change.total_a, unit)} to {brief(change.total_b, unit)}"


def _signed(value: float, unit: str) -> str:
    return f"+{brief(value, unit)}" if value > 0 else brief(value, unit)


def _percent(change: Change) -> str:
    """The change in percent; where that has too many digits, how many times as much."""
    if change.percent is None:
        return ""
    if abs(change.percent) >= 1000:
        return f"{change.total_b / change.total_a:,.0f}x"
    return "0.0%" if abs(change.percent) < 0.05 else f"{change.percent:+.1f}%"
