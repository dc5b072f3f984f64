"""The charts of a comparison: the whole, what changed most, operations before and after, the devices.

header      before ─► after, +2.0%
changes     softmax        │████  +180.000 us  +15.0%      slower to the right, faster to the left
            gemm      ██│         -90.000 us   -1.2%
operations  gemm  ▔▔▔▔▔▔ before
                  ██████ after
devices     before ██████▒▒░░
            after  ████████▒▒░
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.diff.model import CLEAR, GONE, NEW, NOISE, Change, DeviceChange, Diff
from ktrace.rendering.blocks import bars, keys, legend, named, row, section
from ktrace.rendering.charts import diverging, pair
from ktrace.rendering.figures import duration, harmless
from ktrace.rendering.markup import Markup, tag
from ktrace.rendering.use_charts import device_legend, device_row

#: What is drawn at most: changes of each table, operations, devices.
_CHANGES, _OPERATIONS, _DEVICES = 20, 14, 16


def charts(diff: Diff) -> list[Markup]:
    """The parts of the page, those left out of which the traces say nothing."""
    changes = [_changes(by, rows, diff) for by, rows in diff.rows.items() if rows]
    parts = [*changes[:1], _operations(diff), *changes[1:], _devices(diff)]
    return [part for part in parts if part]


def key_figures(diff: Diff) -> Markup:
    """The boxes in the head of the page."""
    whole = diff.whole
    each = " a step" if diff.per == "step" else ""
    figures = [
        ("before", duration(whole.total_a) + each, harmless(diff.name_a)),
        ("after", duration(whole.total_b) + each, harmless(diff.name_b)),
        ("change", _percent(whole), f"{_signed(whole.delta)}{each}, {whole.verdict}"),
    ]
    for by, rows in diff.rows.items():
        clear = sum(change.verdict == CLEAR for change in rows)
        new, gone = (sum(change.verdict == verdict for change in rows) for verdict in (NEW, GONE))
        figures.append((f"by {by}", f"{clear:,} clear", f"{new:,} new, {gone:,} gone, of {len(rows):,}"))
    return keys(figures)


def _changes(by: str, rows: Sequence[Change], diff: Diff) -> Markup | None:
    """The greatest changes as bars to both sides."""
    drawn = sorted(rows, key=lambda change: -abs(change.delta))[:_CHANGES]
    longest = max(abs(change.delta) for change in drawn)
    if not longest:
        return None
    lines = []
    for change in drawn:
        bar = diverging(change.delta, longest, _colour(change), _told(change, diff))
        tags = [change.verdict] if change.verdict in (NEW, GONE) else []
        value = tag("span", tag("b", _signed(change.delta)), " ", _percent(change), class_="value")
        lines.append(tag("li", named(change.key, *tags), bar, value))
    each = " of one step" if diff.per == "step" else ""
    hint = f"The greatest changes{each}. To the right slower, to the left faster; grey is no more than noise."
    colours = legend([("slower", "more"), ("faster", "less"), ("within noise", "unclear")])
    return section(f"by-{by}", f"Changes by {by}", hint, bars(lines), colours)


def _operations(diff: Diff) -> Markup | None:
    rows = sorted(diff.rows.get("operation", []), key=lambda change: -max(change.total_a, change.total_b))[:_OPERATIONS]
    if not rows:
        return None
    longest = max(max(change.total_a, change.total_b) for change in rows)
    lines = []
    for change in rows:
        drawn = pair(change.total_a, change.total_b, longest, _told(change, diff))
        lines.append(row(change.key, drawn, tag("b", _percent(change)), " ", duration(change.total_b)))
    colours = legend([(f"before: {diff.name_a}", "before"), (f"after: {diff.name_b}", "after")])
    return section("operations", "Operations before and after", "The heaviest.", bars(lines), colours)


def _devices(diff: Diff) -> Markup | None:
    drawn = diff.devices[:_DEVICES]
    uses = [use for change in drawn for use in (change.a, change.b) if use]
    longest = max((use.span for use in uses), default=0)
    if not longest:
        return None
    lines = [line for change in drawn for line in _device(change, longest)]
    hint = "From the first begin to the last end of the work, before and after."
    return section("devices", "Use of devices", hint, bars(lines), device_legend(uses))


def _device(change: DeviceChange, longest: int) -> list[Markup]:
    pairs = (("before", change.a), ("after", change.b))
    return [device_row(f"{change.label} {name}", use, longest) for name, use in pairs if use]


def _colour(change: Change) -> str:
    if change.verdict == NOISE:
        return "unclear"
    return "more" if change.delta > 0 else "less"


def _told(change: Change, diff: Diff) -> str:
    """The change in words, for a tooltip."""
    each = " a step" if diff.per == "step" else ""
    lines = [harmless(change.key), f"{duration(change.total_a)} to {duration(change.total_b)}{each}"]
    if change.count_a is not None and change.count_b is not None:
        lines.append(f"{change.count_a:,g} to {change.count_b:,g} times")
    lines.append(f"{change.verdict}: {harmless(change.why)}" if change.why else change.verdict)
    return "\n".join(lines)


def _signed(ns: float) -> str:
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def _percent(change: Change) -> str:
    return f"{change.percent:+,.1f}%" if change.percent is not None else "new"
