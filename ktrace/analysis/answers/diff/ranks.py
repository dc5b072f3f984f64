"""The ranks of a job in a comparison: the same one on both sides, the one that others wait for, waiting and transfer.

    a   rank 0 [ compute ][ all_reduce ]             b   rank 0 [ compute ][ all_reduce         ]
        rank 1 [ compute ][ all_reduce ]                 rank 1 [ compute         ][ all_reduce ]

The collective of rank 0 takes longer, but its transfer doesn't: rank 1 is late. Who waits is known where the files of
several ranks are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ktrace.analysis.answers.diff import NOISE
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.answers.summary.verdict import late_in
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer, RankUse
from ktrace.analysis.work.findings import Finding
from ktrace.naming.taxonomy import taxonomy
from ktrace.tables import Cell, brief, percent

#: Waiting for a rank that grew by this part of the time of devices is named, and a transfer that changed by so much.
_WORTH = 0.5

#: What a rank that is late does longer, if that makes up this part of what the others wait longer.
_MAKES = 0.5


def names_by_rank(a: Summary, b: Summary) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the ranks of the sources of both sides, as "rank 3", to be called so; empty if they needn't be.

    Names of files with the number of a process or a time differ in every run. All ranks must be known and differ.
    """
    names = []
    for side in (a, b):
        ranks = {use.source: use.rank for use in side.devices}
        of_ranks = {source: f"rank {rank}" for source, rank in ranks.items() if rank is not None}
        names.append(of_ranks if len(of_ranks) == len(ranks) == len({*of_ranks.values()}) > 1 else {})
    one, other = names
    return ({}, {}) if not one or not other or one.keys() & other.keys() else (one, other)


def renamed(label: str, names: dict[str, str]) -> str:
    """Returns the label of a source, device or stream with the rank instead of the source."""
    source = next((one for one in names if label == one or label.startswith(f"{one} ")), None)
    return label if source is None else names[source] + label[len(source) :]


class Waiting(NamedTuple):
    """What ranks do in collectives, in ns of all together, of a step if steps are compared: waiting and transfer."""

    waiting: float
    transfer: float


def waiting(side: Summary, per: str) -> Waiting | None:
    """Returns the parts of the collectives of a side; None unless all its ranks are there, on one clock."""
    answer = side.answers.get("collective")
    if not isinstance(answer, CollectivesAnswer) or not answer.joint or answer.alone:
        return None
    if any(rank.waited is None and rank.joint for rank in answer.ranks) or len(answer.ranks) < _size(answer):
        return None
    each = len(side.steps) if per == "step" and side.steps else 1
    waited = sum(rank.waited.total for rank in answer.ranks if rank.waited)
    return Waiting(waited / each, (sum(use.total for use in answer.collectives) - waited) / each)


def findings(diff: Diff) -> list[Finding]:
    """Returns the rank that others wait for on one side, longer than on the other one; collectives in their parts."""
    facts = [one for name in "ba" if (one := _late(diff, name)) is not None][:1]
    before, after = (waiting(side, diff.per) for side in (diff.a, diff.b))
    if before is None or after is None or diff.averaged != (1, 1) or diff.length != 1:
        return facts
    time = diff.device_time.total_a * max(len(diff.a.devices), 1) if diff.device_time else 0.0
    for what in ("waiting", "transfer"):
        a, b = getattr(before, what), getattr(after, what)
        if abs(percent(b - a, time) or 0.0) >= _WORTH:
            details: dict[str, Cell] = {"a_ns": a, "b_ns": b}
            facts.append(Finding(f"collectives.{what}", what, b - a, "ns", a, "that of a", details=details))
    return facts


def _late(diff: Diff, name: str) -> Finding | None:
    """The rank that others wait for on a side, longer than on the other one, unless the time changed by noise alone."""
    if (diff.time or diff.whole).verdict == NOISE or diff.length != 1:
        return None
    side, before = (diff.b, diff.a) if name == "b" else (diff.a, diff.b)
    late = next((one for one in side.findings if one.code == "straggler"), None)
    if late is None or diff.part:
        return None
    each, each_before = (len(of.steps) if diff.per == "step" and of.steps else 1 for of in (side, before))
    rank = str(late.subject["rank"])
    now, was = _rank(side, rank), _rank(before, rank)
    waited = late.value / each
    then = was.others_waited.total / each_before if was and was.others_waited else 0.0
    if (percent(waited - then, (late.whole or 0.0) / each) or 0.0) < _WORTH:
        return None
    a, b = (then, waited) if name == "b" else (waited, then)
    details: dict[str, Cell] = {"a_ns": a, "b_ns": b, "last": late.details["last"], "joint": late.details["joint"]}
    if now and was:
        details |= _longer(now, was, each, each_before, (waited - then) / max(_others(side), 1))
    subject = {"side": name} | {key: value for key, value in late.subject.items() if key != "source"}
    return Finding("straggler", "others waited", b - a, "ns", a, "that of a", subject, None, details, late.evidence)


def _longer(late: RankUse, was: RankUse, each: int, before: int, waited: float) -> dict[str, Cell]:
    """What the rank itself does longer than on the other side, if that explains what each of the others waits."""
    times = {}
    for what in ("compute", "idle"):
        now, then = (None if one.span is None else _time(one, what) for one in (late, was))
        if now is not None and then is not None:
            times[what] = now / each, then / before
    most = max(times, key=lambda what: times[what][0] - times[what][1], default=None)
    if most is None or times[most][0] - times[most][1] < _MAKES * waited:
        return {}
    return {"longer": most, "longer_ns": times[most][0], "other_side_ns": times[most][1]}


def _time(one: RankUse, what: str) -> int | None:
    if what == "idle":
        return None if one.span is None or one.busy is None else one.span - one.busy
    return one.compute


def _others(side: Summary) -> int:
    answer = side.answers.get("collective")
    return len(answer.ranks) - 1 if isinstance(answer, CollectivesAnswer) else 1


def _rank(side: Summary, label: str) -> RankUse | None:
    answer = side.answers.get("collective")
    ranks = answer.ranks if isinstance(answer, CollectivesAnswer) else ()
    return next((one for one in ranks if one.label == label), None)


def is_late(diff: Diff) -> bool:
    """Whether collectives take longer, or less, by waiting: for one rank on one side, or for several."""
    return any(one.code == "straggler" for one in diff.of_ranks) or is_by_waiting(diff)


def is_by_waiting(diff: Diff) -> bool:
    """Whether no rank is known to be late, and collectives changed by waiting more than by transfer, beyond noise.

    Then ranks are late in turns, or for a part of the run.
    """
    changes = {one.code: abs(one.value) for one in diff.of_ranks}
    waited = changes.get("collectives.waiting", 0.0)
    is_known = "straggler" not in changes and (diff.time or diff.whole).verdict != NOISE
    return is_known and waited > changes.get("collectives.transfer", 0.0)


def is_collective(name: str) -> bool:
    """Whether a kernel, or an operation, is a collective."""
    return name == "collective" or taxonomy().labels(name).operation == "collective"


def said(diff: Diff) -> str:
    """Returns the sentences on ranks, with a blank behind each; "" for none."""
    return "".join(f"{sentence} " for sentence in _sentences(diff))


def _sentences(diff: Diff) -> Iterator[str]:
    each = " a step" if diff.per == "step" else ""
    by_code = {one.code: one for one in diff.of_ranks}
    if late := by_code.get("straggler"):
        details, in_b = late.details, late.subject["side"] == "b"
        name, other = (diff.name_b, diff.name_a) if in_b else (diff.name_a, diff.name_b)
        waits, there = (brief(float(details[key] or 0)) for key in (("b_ns", "a_ns") if in_b else ("a_ns", "b_ns")))
        why = ""
        if "longer" in details:
            now, then = (float(details[key] or 0) for key in ("longer_ns", "other_side_ns"))
            what = {"compute": "its kernels take", "idle": "its device is idle for"}[str(details["longer"])]
            why = f", as {what} {brief(now)} instead of {brief(then)}"
        last = f"it arrives last in {details['last']:,} of {details['joint']:,} collectives"
        when, also = (f", late{part}", " there") if (part := late_in(late)) else ("", "")
        wait = f"In {name} the others wait {waits}{each} for rank {late.subject['rank']}{when} ({there} in {other})"
        yield f"{wait}{why}; {last}{also}."
    parts = [by_code[code] for code in ("collectives.waiting", "collectives.transfer") if code in by_code]
    times = [(one.metric, *(brief(float(one.details[key] or 0)) for key in ("b_ns", "a_ns"))) for one in parts]
    if times:
        yield f"In collectives {' and '.join(f'{what} takes {b} instead of {a}' for what, b, a in times)}{each}."
    elif alone := _alone(diff):
        yield alone


def _size(answer: CollectivesAnswer) -> int:
    """How many ranks its collectives have at most, as far as that is known, several where it isn't."""
    return max((use.ranks or 2 for use in answer.collectives), default=0)


def _alone(diff: Diff) -> str:
    """That some ranks of a group don't tell how much of its collectives is waiting, where they changed."""
    answers = [side.answers.get("collective") for side in (diff.a, diff.b)]
    parts = [
        (len(one.ranks), _size(one))
        for one in answers
        if isinstance(one, CollectivesAnswer) and len(one.ranks) < _size(one)
    ]
    changed, time = diff.measure("communication"), diff.device_time
    if not parts or not changed or not time or abs(percent(changed.delta, time.total_a) or 0.0) < _WORTH:
        return ""
    ranks, size = min(parts)
    there = "one rank" if ranks == 1 else f"{ranks} of {size} ranks"
    return f"With {there}, waiting for others can't be told from transfer time."
