"""A comparison for programs: the facts that its sentences say in words, with both values and what is known of noise."""

from __future__ import annotations

from ktrace.analysis.diff.changes import Change
from ktrace.analysis.diff.comparison import Diff
from ktrace.analysis.diff.facts import (
    against,
    causes,
    decisive,
    different_work,
    exposed,
    heaviest,
    is_idle_named,
    is_work_named,
    shared,
)
from ktrace.analysis.diff.rows import shown
from ktrace.analysis.work.findings import Finding
from ktrace.tables.figures import Cell

#: How many changes of work, certain and doubtful, become findings.
_MOST, _DOUBTFUL = 10, 3


def findings(diff: Diff) -> list[Finding]:
    """Returns the facts: the change that decides, those it doesn't show, and what makes the difference.

    The changes of work have their place among what to look at first as `look`.
    """
    if not diff.whole.total_a or not diff.whole.total_b:
        return []
    found = [_of("time" if diff.time else "work", decisive(diff), diff)]
    if diff.unit != "ns":
        return found
    codes = {id(diff.device_time): "device_time", id(diff.whole): "work"}
    found += [_of(codes[id(change)], change, diff) for change in against(diff)]
    found += [_of("work", diff.whole, diff)] if is_work_named(diff) else []
    found += [_of("idle", diff.idle, diff)] if diff.idle and is_idle_named(diff) else []
    found += [_of(f"exposed.{what}", alone, diff) for what, alone in exposed(diff)]
    found += [_amount(diff)] if different_work(diff) else []
    for name, side in (("a", diff.a), ("b", diff.b)):
        if side.lost:
            found.append(Finding("records_lost", "side", 1, "count", subject={"side": name}))
    return [*found, *_changes(diff)]


def _changes(diff: Diff) -> list[Finding]:
    """The changes of work, the greatest first; then those of which it isn't known whether they exceed noise."""
    named = causes(diff)
    if named is None:
        return []
    code = {id(one): f"change.{one.verdict.replace(' ', '_')}" for one in (*named.sure, *named.doubtful)}
    first = [_of(code[id(one)], one, diff, named.by, look) for look, one in enumerate(heaviest(named.sure, _MOST), 1)]
    return first + [_of(code[id(one)], one, diff, named.by) for one in heaviest(named.doubtful, _DOUBTFUL)]


def _of(code: str, change: Change, diff: Diff, by: str = "work", look: int | None = None) -> Finding:
    """A change: the value is the difference, the whole what it was before."""
    suffix = "_ns" if diff.unit == "ns" else "_percent"
    details: dict[str, Cell] = {f"a{suffix}": change.total_a, f"b{suffix}": change.total_b, "noise": change.verdict}
    if change.medians:
        details |= {f"median_a{suffix}": change.medians[0], f"median_b{suffix}": change.medians[1]}
    if change.from_count is not None:
        details |= {"count_a": change.count_a, "count_b": change.count_b}
        details |= {f"by_count{suffix}": change.from_count, f"by_duration{suffix}": change.from_duration}
    if change.test:
        details |= {"samples": change.test.samples, "samples_a": change.test.a, "samples_b": change.test.b}
        details |= {"q": change.test.q} if change.test.q is not None else {}
    details |= {"why": change.why} if change.why else {}
    rows = shown(change, diff.a, diff.b, None if by == "work" else by)
    details |= {"evidence_of": "b" if change.delta > 0 else "a"} if rows else {}
    metric, of = ("time a step", "the step of a") if diff.per == "step" else ("time", "the time of a")
    if diff.unit != "ns":
        metric, of = "share", "the share of a"
    return Finding(code, metric, change.delta, diff.unit, change.total_a, of, {by: change.key}, look, details, rows)


def _amount(diff: Diff) -> Finding:
    """That the sides did different amounts of work: the calls of what changed the most by them."""
    most = max(shared(diff), key=lambda change: abs(change.from_count or 0.0))
    a, b = most.count_a or 0, most.count_b or 0
    details: dict[str, Cell] = {"count_a": a, "count_b": b, "by_count_ns": most.from_count}
    return Finding(
        "another_amount_of_work", "calls", b - a, "count", a, "the calls of a", {"work": most.key}, None, details
    )
