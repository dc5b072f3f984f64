"""Matches the work of one side with the work of the other.

    a                         b                          matched
    softmax_kernel            softmax_kernel             name
    add<float, 4>(float*)     add<float, 8>(float*)      short name
    vectorized<AddFunctor>    vectorized                 function
    triton_poi_fused_add_12   triton_poi_fused_add_7     name without number
    Memcpy HtoD (Pinned ...)  [CUDA memcpy HtoD]         direction of the copy
    L9                        block_9                    number of the layer

A summary lists kernels by short name, and equal names match. The remaining kernels match if they have the same
operation and either the same function, where one side names only the function, or the same name without the number or
hash that graph compilers (Inductor, XLA) change with every build. Copies and fills, which each tool spells in its own
way, match by direction, and all copies where one side doesn't state any. Among several candidates, two match if they
are the only ones launched equally often; the rest are compared as one. Kernels whose names differ in other ways, such
as the tile of a gemm, aren't matched: one is gone and one is new, and the table by operation compares them.

Answers to questions become groups, so that they are compared like work:

    idle         host late           116.6 us in 4 gaps        causes, summed over devices
    op           aten::mm            412.0 us in 96 calls      device time launched with it innermost
    collective   all_reduce 4 MiB    1.200 ms in 12            operations and sizes

Their totals are those of whole traces: questions don't divide them by step, but for the breakdown of steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from ktrace.analysis.answers.summary.statistics import joined
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.breakdown import NAME as BREAKDOWN
from ktrace.analysis.questions.breakdown import BreakdownAnswer
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer
from ktrace.analysis.questions.critical_path import CriticalPathAnswer
from ktrace.analysis.questions.hosts.answer import ApiTable, HostCosts
from ktrace.analysis.questions.hosts.passes import PassesAnswer
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.analysis.questions.phases.answer import PhasesAnswer, PhaseUse
from ktrace.analysis.work.groups import BY, OTHER, Group, InSteps
from ktrace.analysis.work.question import Answer
from ktrace.model.arrays import AnyArray
from ktrace.naming.taxonomy import Taxonomy, taxonomy
from ktrace.tables import size

#: Names that end in a number or hash of a graph compiler: Inductor's, XLA's, names with a digest.
_NUMBERED = re.compile(r"^(triton_\w+?)_\d+$|^(\w*fusion)[._]\d+$|^(.*\D)[._](?=[0-9a-f]*[0-9])[0-9a-f]{8,64}$")
_LAYER = re.compile(r"(?<!\d)\d+$")

#: How tools spell copies and fills, without their memory: Kineto, Nsight Systems, ROCm's.
_COPY = re.compile(
    r"memcpy(?: (?P<kineto>\w+))?(?: \(.*\))?|\[cuda memcpy(?: (?P<nsys>[\w -]+?))?\]"
    r"|memory_copy_(?P<rocm>\w+)|copy(?P<hip>(?:host|device)to(?:host|device))(?:[23]d)?",
    re.IGNORECASE,
)
_FILL = re.compile(r"memset(?: \(.*\))?|\[cuda memset\]|fillbuffer", re.IGNORECASE)

#: Groups that match despite different names if each side has only one.
_ONLY = ("stream", "device", "rank", "source", "run")

Key = Callable[[Group], str | None]


class Match(NamedTuple):
    """Work of both sides, or of one, and what it was matched by: "" for work of only one side."""

    a: Group | None
    b: Group | None
    by: str = ""


def matched(a: Sequence[Group], b: Sequence[Group], by: str, *, steps: tuple[int, int] = (1, 1)) -> list[Match]:
    """Returns all groups of both sides, each once. `steps` is the number of steps of each side, to compare counts."""
    of_b = {group.key: group for group in b}
    matches = [Match(group, of_b[group.key], _same(group, of_b[group.key], by)) for group in a if group.key in of_b]
    same = {match.a.key for match in matches if match.a}
    rest_a = [group for group in a if group.key not in same]
    rest_b = [group for group in b if group.key not in same]
    for key, words in _keys(by, rest_a, rest_b):
        rest_a, rest_b = _bucketed(rest_a, rest_b, key, words, steps, matches)
    if rest_a and rest_b and not same and (by == "step" or (by in _ONLY and len(rest_a) == len(rest_b) == 1)):
        matches += [Match(one, other, _place(by)) for one, other in zip(rest_a, rest_b, strict=False)]
        length = min(len(rest_a), len(rest_b))
        rest_a, rest_b = rest_a[length:], rest_b[length:]
    return [*matches, *(Match(group, None) for group in rest_a), *(Match(None, group) for group in rest_b)]


def _same(a: Group, b: Group, by: str) -> str:
    """Returns what groups of the same key were matched by: for kernels the short name."""
    return "short name" if by == "kernel" and (a.name is None or a.name != b.name) and a.key != OTHER else "name"


def _keys(by: str, a: Sequence[Group], b: Sequence[Group]) -> list[tuple[Key, str]]:
    """Returns the keys other than names by which groups match, the most certain first."""
    if by == "layer":
        return [(_layer, "number of the layer")]
    if by != "kernel" or not a or not b:
        return []
    rules = taxonomy()
    bare = {group.key for group in (*a, *b) if "<" not in group.key}

    def function(group: Group) -> str | None:
        word = group.key.partition("<")[0]
        return _with_operation(rules, group, word) if word in bare else None

    copied = {_copied(group) for group in (*a, *b)}
    return [
        (_copied, "direction of the copy") if "copy" not in copied else (_is_copy, "copy"),
        (function, "function"),
        (lambda group: _with_operation(rules, group, unnumbered(group.key)), "name without number"),
    ]


def _copied(group: Group) -> str | None:
    """Returns what a copy or fill does: "copy htod", "copy" where its name states no direction, "fill"."""
    if _FILL.fullmatch(group.key):
        return "fill"
    match = _COPY.fullmatch(group.key)
    if not match:
        return None
    word = re.sub("[^a-z]", "", (match[match.lastgroup] if match.lastgroup else "").lower())
    return f"copy {word.replace('host', 'h').replace('device', 'd').replace('peer', 'p')}".rstrip()


def _is_copy(group: Group) -> str | None:
    """Returns whether it is a copy or a fill, whatever the direction."""
    word = _copied(group)
    return word and word.partition(" ")[0]


def _place(by: str) -> str:
    return "place" if by == "step" else "the only one"


def _with_operation(rules: Taxonomy, group: Group, key: str) -> str | None:
    """Returns the key extended by the kernel's operation; None for the group of unnamed work."""
    return None if group.key == OTHER else f"{key}\n{rules.labels(group.name or group.key).operation}"


def unnumbered(name: str) -> str:
    """Returns the name without the number or hash at its end that a graph compiler changes with every build."""
    numbered = _NUMBERED.match(name)
    return next(part for part in numbered.groups() if part) if numbered else name


def _layer(group: Group) -> str | None:
    number = _LAYER.search(group.key)
    return str(int(number.group())) if number else None


def _bucketed(
    a: Iterable[Group], b: Iterable[Group], key: Key, words: str, steps: tuple[int, int], matches: list[Match]
) -> tuple[list[Group], list[Group]]:
    """Adds the groups that share a key to `matches`, and returns the others."""
    buckets: dict[str, tuple[list[Group], list[Group]]] = {}
    unmatched: tuple[list[Group], list[Group]] = ([], [])
    for side, groups in enumerate((a, b)):
        for group in groups:
            common = key(group)
            if common is None:
                unmatched[side].append(group)
            else:
                buckets.setdefault(common, ([], []))[side].append(group)
    for of_a, others in buckets.values():
        if of_a and others:
            matches += _match_bucket(of_a, others, words, steps)
        else:
            unmatched[0].extend(of_a)
            unmatched[1].extend(others)
    return unmatched


def _match_bucket(a: list[Group], b: list[Group], words: str, steps: tuple[int, int]) -> list[Match]:
    """Matches groups that share a key: by launch count where that is unique, the rest as one."""
    if len(a) == len(b) == 1:
        return [Match(a[0], b[0], words)]
    matches = []
    of_a, of_b = _by_count(a, steps[0]), _by_count(b, steps[1])
    for count, groups in of_a.items():
        others = of_b.get(count, [])
        if count is not None and len(groups) == len(others) == 1:
            matches.append(Match(groups[0], others[0], f"{words} and count"))
            a = [group for group in a if group is not groups[0]]
            b = [group for group in b if group is not others[0]]
    if a and b:
        many = "" if len(a) == len(b) == 1 else f", {len(a)} with {len(b)}"
        return [*matches, Match(together(a), together(b), f"{words}{many}")]
    return [*matches, *(Match(group, None) for group in a), *(Match(None, group) for group in b)]


def _by_count(groups: Iterable[Group], steps: int) -> dict[float | None, list[Group]]:
    counts: dict[float | None, list[Group]] = {}
    for group in groups:
        per_step = None if group.in_steps is None else group.in_steps.count
        count = group.count if per_step is None else int(per_step.sum())
        counts.setdefault(None if count is None else count / steps, []).append(group)
    return counts


def together(groups: Sequence[Group]) -> Group:
    """Returns several groups as one, with the key of the first, which is the heaviest, and the samples of all."""
    if len(groups) == 1:
        return groups[0]
    whole = reduce(joined, groups)
    durations = _of_all(groups, "durations")
    if durations is not None:
        rising = np.sort(np.concatenate(durations))
        whole = replace(whole, durations=rising, median=float(np.median(rising)) if len(rising) else None)
    if (inside := _of_all(groups, "inside")) is not None:
        whole = replace(whole, inside=np.sort(np.concatenate(inside)))
    in_steps = [group.in_steps for group in groups if group.in_steps is not None]
    return replace(whole, in_steps=InSteps.together(in_steps)) if len(in_steps) == len(groups) else whole


def _of_all(groups: Sequence[Group], name: str) -> list[AnyArray] | None:
    """Returns a column of samples of each group, None if a group doesn't have it."""
    values = [getattr(group, name) for group in groups]
    return None if any(one is None for one in values) else values


#: The questions whose answers can be compared.
ANSWERED = ("op", "shape", "module", "range", "pass", "api", "idle", "collective", "critical-path", "phase", "batch")

#: What comparisons can be by.
COMPARED = (*BY, *ANSWERED, BREAKDOWN)


def groups_by(side: Summary, by: str) -> list[Group]:
    """Returns the groups of a side by a criterion or a question; empty if it has none."""
    if by in side.groups:
        return side.groups[by]
    answer = side.answers.get(by)
    groups = next((of(answer) for kind, of in _GROUPS.items() if isinstance(answer, kind)), [])
    return sorted(groups, key=lambda group: -group.total)


def _of_host(answer: HostCosts) -> list[Group]:
    """Device time of names on the host, without that of names inside them; without device work the host's own time."""
    device = answer.device is not None
    return [_group(row.name, row.own if device else row.host_own or 0, row.calls) for row in answer.rows]


def _of_idle(answer: IdleAnswer) -> list[Group]:
    return _added((cause.cause, cause.time, cause.gaps) for device in answer.devices for cause in device.causes)


def _of_collectives(answer: CollectivesAnswer) -> list[Group]:
    return _added(
        (_collective(use.operation, use.smallest, use.largest), use.total, use.rows) for use in answer.collectives
    )


def _of_path(answer: CriticalPathAnswer) -> list[Group]:
    return _added((one.key, one.time, one.pieces) for one in answer.kinds)


def _of_phases(answer: PhasesAnswer) -> list[Group]:
    """The steps of each phase, or of each batch size in it, as launches of one kind."""
    return [_of_steps(use) for use in (answer.batches if answer.by == "batch" else answer.phases)]


def _of_steps(use: PhaseUse) -> Group:
    key = use.phase if use.batch is None else f"{use.phase}, batch {use.batch:,}"
    return Group(key, use.time, use.steps, use.time / use.steps, use.step.median, use.step.p95, durations=use.times)


def _of_passes(answer: PassesAnswer) -> list[Group]:
    return [_group(one.name, one.time, one.launched) for one in answer.passes]


def _of_calls(answer: ApiTable) -> list[Group]:
    return [row.calls for row in answer.rows]


_GROUPS: dict[type[Answer], Callable[..., list[Group]]] = {
    HostCosts: _of_host,
    IdleAnswer: _of_idle,
    CollectivesAnswer: _of_collectives,
    CriticalPathAnswer: _of_path,
    ApiTable: _of_calls,
    PhasesAnswer: _of_phases,
    PassesAnswer: _of_passes,
    BreakdownAnswer: lambda answer: answer.parts,
}


def _collective(operation: str, smallest: int | None, largest: int | None) -> str:
    if smallest is None or largest is None:
        return operation
    return f"{operation} {size(smallest)}" + (f" to {size(largest)}" if smallest != largest else "")


def _added(rows: Iterable[tuple[str, int, int]]) -> list[Group]:
    """Returns a group for each key, with the sums of its times and counts."""
    sums: dict[str, tuple[int, int]] = {}
    for key, time, count in rows:
        before = sums.get(key, (0, 0))
        sums[key] = before[0] + time, before[1] + count
    return [_group(key, time, count) for key, (time, count) in sums.items()]


def _group(key: str, time: float, count: int | None) -> Group:
    return Group(key, time, count, time / count if count else None)
