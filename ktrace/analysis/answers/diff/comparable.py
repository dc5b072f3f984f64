"""In what the sides of a comparison differ before any time: devices, ranks, versions, grids, kernels, what is counted.

    a   2 ranks of NVIDIA A100-SXM4-80GB, NCCL 2.21.5        differs.device, differs.ranks: said first
    b   4 ranks of Tesla V100-SXM2-32GB, NCCL 2.21.5         totals are averages of a device

Whoever asks whether a change of code made it slower compares runs that are alike in these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.summary.nature import COUNTED, is_other
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer
from ktrace.analysis.questions.launches.answer import CopiesAnswer
from ktrace.analysis.questions.phases.answer import PhasesAnswer
from ktrace.analysis.work.findings import Finding
from ktrace.naming.taxonomy import classify
from ktrace.tables import Cell, percent, size

#: A device counts if it is busy for this part of the time of the busiest one.
_BUSY = 0.1

#: Other grids, and work of one side alone, are said from this part of the time on, in percent.
_MOST = 50.0

#: A recording is longer from so many times the calls on, of at least so many kernels, of which each has as many times
#: the calls within this part; the time may differ by this part from that.
_LONGER, _KERNELS, _LIKE, _AS_LONG = 1.5, 2, 0.05, 0.25

#: The calls of a mixture of work vary by chance: by so many standard deviations of as many independent ones.
_CHANCE = 3.0

#: Operations that multiply, in one precision.
_PRODUCTS = ("gemm", "conv", "attention", "moe")

#: How many versions are named.
_VERSIONS = 3

#: Copies move other amounts from so many times as much on.
_OTHER_SIZE = 1.1

#: How many sizes of batches are named.
_BATCHES = 3


def averaged_over(a: Summary, b: Summary) -> tuple[int, int]:
    """Returns over how many devices totals are averaged: 1 and 1, so over none, if both sides have equally many."""
    counts = _devices(a), _devices(b)
    return counts if all(counts) and counts[0] != counts[1] else (1, 1)


def length_of(a: Summary, b: Summary) -> float:
    """Returns how many times as long the recording `b` is: by the calls of all kernels and by the time, else 1.

    Without steps, a loop that was recorded for longer isn't slower. Its kernels, at least two, are all called so many
    times as often (or nearly, as those of a mixture of requests are), and the time is as many times as long. Nearly
    equal lengths are none of this.
    """
    sides = [{group.key: group.count or 0 for group in side.groups.get("kernel", [])} for side in (a, b)]
    calls_a, calls_b = sides
    if (a.steps and b.steps) or a.work != "events" or calls_a.keys() != calls_b.keys() or len(calls_a) < _KERNELS:
        return 1.0
    times = sum(calls_b.values()) / max(sum(calls_a.values()), 1)
    if not a.longest or not b.longest or max(times, 1 / max(times, 1e-9)) < _LONGER:
        return 1.0
    is_same = all(
        abs(calls_b[key] - times * calls)
        <= max(1, times, _LIKE * calls_b[key], _CHANCE * math.sqrt(calls_b[key] + times**2 * calls))
        for key, calls in calls_a.items()
    )
    return times if is_same and abs(b.longest / a.longest / times - 1) <= _AS_LONG else 1.0


def _devices(side: Summary) -> int:
    most = max((use.busy for use in side.devices), default=0)
    return sum(use.busy >= _BUSY * most for use in side.devices)


def differences(diff: Diff) -> list[Finding]:
    """Returns in what the sides differ; what isn't known of one of them is no difference."""
    return [
        *_of_devices(diff),
        *_of_ranks(diff),
        *_of_length(diff),
        *_of_units(diff),
        *_of_versions(diff),
        *_of_batches(diff),
        *_of_sizes(diff),
        *_of_precision(diff),
        *_of_work(diff),
    ]


def _of_devices(diff: Diff) -> Iterator[Finding]:
    a, b = (sorted({use.name for use in side.devices if use.name}) for side in (diff.a, diff.b))
    if a and b and a != b:
        yield _differs("device", len(b), len(a), {"a": ", ".join(a), "b": ", ".join(b)})


def _of_length(diff: Diff) -> Iterator[Finding]:
    if diff.length != 1:
        yield _differs("length", diff.b.longest or 0, diff.a.longest or 0, {"times": diff.length}, "ns")


def _of_units(diff: Diff) -> Iterator[Finding]:
    """Calls of all kernels that take 1,000 times as long, or a million times: no change of a program does that."""
    both = [row for row in diff.rows.get("kernel", []) if row.total_a and row.total_b and row.count_a and row.count_b]
    times = sorted(row.total_b / (row.count_b or 1) * (row.count_a or 1) / row.total_a for row in both)
    if len(times) < _KERNELS:
        return
    power = round(math.log10(times[len(times) // 2]) / 3)
    if power and all(abs(one / 1_000.0**power - 1) <= _AS_LONG for one in times):
        subject: dict[str, Cell] = {"times": 1_000 ** abs(power), "more": power > 0}
        yield _differs("units", diff.whole.total_b, diff.whole.total_a, subject, "ns")


def _of_ranks(diff: Diff) -> Iterator[Finding]:
    a, b = (side.setting.ranks for side in (diff.a, diff.b))
    if a is not None and b is not None and a != b:
        yield _differs("ranks", b, a, {"a": a, "b": b})
    elif diff.averaged != (1, 1):
        a, b = diff.averaged
        yield _differs("devices", b, a, {"a": a, "b": b})


def _of_versions(diff: Diff) -> Iterator[Finding]:
    a, b = diff.a.setting.versions, diff.b.setting.versions
    for key in sorted(a.keys() & b.keys()):
        if a[key] != b[key]:
            yield _differs("version", 1, 1, {"version": key, "a": a[key], "b": b[key]})


def _of_batches(diff: Diff) -> Iterator[Finding]:
    """Phases of inference most of whose time is at sizes of batches that the other side lacks."""
    a, b = _batches(diff.a), _batches(diff.b)
    for phase in a.keys() & b.keys():
        time = sum(ns for batch, ns in a[phase].items() if batch not in b[phase])
        if (percent(time, sum(a[phase].values())) or 0.0) >= _MOST:
            one, other = (", ".join(map(str, sorted(of[phase])[:_BATCHES])) for of in (a, b))
            yield _differs("batch", time, sum(a[phase].values()), {"phase": phase, "a": one, "b": other}, "ns")


def _batches(side: Summary) -> dict[str, dict[int, int]]:
    """The time of each size of batches of each phase."""
    answer = side.answers.get("batch")
    times: dict[str, dict[int, int]] = {}
    for use in answer.batches if isinstance(answer, PhasesAnswer) else ():
        if use.batch is not None:
            times.setdefault(use.phase, {})[use.batch] = use.time
    return times


def _of_sizes(diff: Diff) -> Iterator[Finding]:
    """Collectives that move other sizes, and kernels whose launches have no grid in common."""
    a, b = _moved(diff.a), _moved(diff.b)
    for key in a.keys() & b.keys():
        if a[key] != b[key]:
            yield _differs("collective", b[key], a[key], {"collective": key, "a": size(a[key]), "b": size(b[key])}, "B")
    yield from _of_copies(diff)
    yield from _of_shapes(diff)
    if diff.a.grids is None or diff.b.grids is None:
        return
    of_a, of_b = diff.a.grids.by_kernel, diff.b.grids.by_kernel
    both = [row for row in diff.rows.get("kernel", []) if row.key in of_a and row.key in of_b]
    others = [row for row in both if not of_a[row.key].keys() & of_b[row.key].keys()]
    time, whole = (math.fsum(row.total_a for row in rows) for rows in (others, both))
    if (percent(time, whole) or 0.0) >= _MOST:
        most = max(others, key=lambda row: row.total_a)
        grids = {name: " ".join(list(of[most.key])[:1]) for name, of in (("a", of_a), ("b", of_b))}
        yield _differs("grids", time, whole, {"kernel": most.key, **grids}, "ns")


def _of_copies(diff: Diff) -> Iterator[Finding]:
    """Copies of a direction, as many a step on both sides, that move other amounts each: as of another batch."""
    a, b = _copies(diff.a), _copies(diff.b)
    for direction in a.keys() & b.keys():
        (count, before, largest), (count_b, after, largest_b) = a[direction], b[direction]
        is_other = max(after / before, before / after) >= _OTHER_SIZE and (after > before) is (largest_b > largest)
        if is_other and abs(count_b / count - 1) <= _LIKE:
            yield _differs("copies", after, before, {"copies": direction, "a": size(before), "b": size(after)}, "B")


def _copies(side: Summary) -> dict[str, tuple[float, float, int]]:
    """The copies of each direction: how many a step, else in all, the median and the most of their bytes."""
    answer, steps = side.answers.get("copy"), max(len(side.steps), 1)
    copies = answer.copies if isinstance(answer, CopiesAnswer) else ()
    return {one.direction: (one.count / steps, one.median, one.largest) for one in copies if one.median and one.largest}


def _of_shapes(diff: Diff) -> Iterator[Finding]:
    """Products of PyTorch most of whose calls have inputs of shapes that the other side lacks."""
    both = [name for name in diff.a.dims if name in diff.b.dims]
    others = {
        name: sum(count for dims, count in diff.a.dims[name].items() if dims not in diff.b.dims[name]) for name in both
    }
    whole = sum(sum(diff.a.dims[name].values()) for name in both)
    if both and (percent(sum(others.values()), whole) or 0.0) >= _MOST:
        most = max(others, key=others.__getitem__)
        shapes = {
            name: max((dims for dims in one if dims not in other), key=one.__getitem__, default="different shapes")
            for name, one, other in (
                ("a", diff.a.dims[most], diff.b.dims[most]),
                ("b", diff.b.dims[most], diff.a.dims[most]),
            )
        }
        yield _differs("shapes", sum(others.values()), whole, {"operator": most, **shapes})


def _of_precision(diff: Diff) -> Iterator[Finding]:
    """Products most of whose time is of a precision that the other side lacks, by the names of their kernels."""
    a, b = _precisions(diff.a), _precisions(diff.b)
    for operation in sorted(a.keys() & b.keys(), key=lambda one: -sum(a[one].values())):
        one, other = a[operation], b[operation]
        time, whole = sum(ns for name, ns in one.items() if name not in other), sum(one.values())
        if (percent(time, whole) or 0.0) >= _MOST:
            names = {side: max(times, key=times.__getitem__) for side, times in (("a", one), ("b", other))}
            yield _differs("precision", time, whole, {"operation": operation, **names}, "ns")


def _precisions(side: Summary) -> dict[str, dict[str, float]]:
    """The time of each precision of each operation that multiplies, where all names tell."""
    times: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for group in side.groups.get("kernel", []):
        labels = classify(group.name or group.key)
        if labels.operation in _PRODUCTS:
            times[labels.operation][labels.precision or ""] += group.total
    return {operation: dict(of) for operation, of in times.items() if "" not in of}


def _moved(side: Summary) -> dict[str, int]:
    """The size of each operation of collectives that has only one."""
    answer = side.answers.get("collective")
    sizes_of: dict[str, set[int | None]] = {}
    for use in answer.collectives if isinstance(answer, CollectivesAnswer) else ():
        sizes_of.setdefault(use.operation, set()).update((use.smallest, use.largest))
    return {key: one for key, sizes in sizes_of.items() if len(sizes) == 1 and (one := next(iter(sizes))) is not None}


def _of_work(diff: Diff) -> Iterator[Finding]:
    """Differences in what is counted, and in the names of work where most of it is on one side only."""
    if is_other(diff.a.whose, diff.b.whose):
        yield _differs("work", 1, 1, {"a": diff.a.whose, "b": diff.b.whose})
        return
    parts = []
    for by in ("kernel", "operation"):
        if (rows := diff.rows.get(by)) is not None:
            times = [(row.total_b, row.a is None) for row in rows]
        else:  # kernels have no table where both sides share few
            names_of_a = {one.key for one in diff.a.groups.get(by, [])}
            times = [(one.total, one.key not in names_of_a) for one in diff.b.groups.get(by, []) if names_of_a]
        parts.append((math.fsum(time for time, is_alone in times if is_alone), math.fsum(time for time, _ in times)))
    if all((percent(alone, whole) or 0.0) >= _MOST for alone, whole in parts):
        yield _differs("kind", *parts[0], {}, "ns")


def _differs(what: str, b: float, a: float, subject: dict[str, Cell], unit: str = "count") -> Finding:
    return Finding(f"differs.{what}", what, b, unit, a, "that of a", subject)


def alike(diff: Diff) -> str:
    """Returns in what the sides differ as a sentence, "" if nothing is known to differ."""
    versions = [one for one in diff.differences if one.code == "differs.version"]
    left_out = versions[_VERSIONS:]
    said = [_clause(one, diff) for one in diff.differences if one not in left_out]
    said += [f"{len(left_out):,} more versions differ"] if left_out else []
    return f"Not like for like: {'; '.join(said)}." if said else ""


def _clause(one: Finding, diff: Diff) -> str:
    a, b, subject = diff.name_a, diff.name_b, one.subject
    what = one.code.partition(".")[2]
    slow, fast = (b, a) if subject.get("more") else (a, b)
    average = ", so totals are averages of a device" if diff.averaged != (1, 1) else ""
    return {
        "device": f"{a} ran on {subject.get('a')}, {b} on {subject.get('b')}",
        "length": (
            f"{b} has {float(subject.get('times') or 0):,.2f} times the calls of the kernels of {a} and is nearly as"
            " many times as long, so its totals are divided by that"
        ),
        "units": (
            f"all kernels of {slow} take {float(subject.get('times') or 0):,.0f} times as long as those of {fast}, as "
            "if their times were in other units"
        ),
        "ranks": f"{a} is of {subject.get('a')} ranks, {b} of {subject.get('b')}{average}",
        "devices": f"{a} has work on {subject.get('a')} devices, {b} on {subject.get('b')}{average}",
        "version": f"{subject.get('version')} is {subject.get('a')} in {a}, {subject.get('b')} in {b}",
        "batch": f"{subject.get('phase')} is of batches of {subject.get('a')} in {a}, of {subject.get('b')} in {b}",
        "collective": f"{subject.get('collective')} moves {subject.get('a')} in {a}, {subject.get('b')} in {b}",
        "copies": f"{subject.get('copies')} copies move {subject.get('a')} each in {a}, {subject.get('b')} in {b}",
        "shapes": f"{subject.get('operator')} has inputs {subject.get('a')} in {a}, {subject.get('b')} in {b}",
        "precision": f"{subject.get('operation')} is {subject.get('a')} in {a}, {subject.get('b')} in {b}",
        "grids": f"launches of {subject.get('kernel')} have different grids ({subject.get('a')} in {a}, "
        f"{subject.get('b')} in {b})",
        "work": (
            f"{a} has {COUNTED[diff.a.whose]}, {b} {COUNTED[diff.b.whose]}"
            + (" alone, so their times can't be compared" if diff.is_foreign else "")
        ),
        "kind": f"{one.share or 0:.0f}% of the time of {b} is in kernels and operations that {a} lacks",
    }[what]
