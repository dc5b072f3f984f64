"""The answers to questions as groups, so that they are compared like work.

    idle         host late           116.6 us in 4 gaps        causes, summed over devices
    op           aten::mm            412.0 us in 96 calls      device time launched with it innermost
    collective   all_reduce 4 MiB    1.200 ms in 12            operations and sizes

Their totals are those of whole traces: questions don't divide them by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ktrace.analysis.collectives.answer import CollectivesAnswer
from ktrace.analysis.critical_path.answer import CriticalPathAnswer
from ktrace.analysis.hosts.answer import ApiTable, HostCosts
from ktrace.analysis.idle.answer import IdleAnswer
from ktrace.analysis.summary.model import Summary
from ktrace.analysis.work.groups import BY, Group
from ktrace.analysis.work.question import Answer
from ktrace.tables.figures import size

#: The questions whose answers can be compared.
ANSWERED = ("op", "module", "range", "api", "idle", "collective", "critical-path")

#: What comparisons can be by.
COMPARED = (*BY, *ANSWERED)


def groups_by(side: Summary, by: str) -> list[Group]:
    """Returns the groups of a side by a criterion or a question; empty if it has none."""
    if by in side.groups:
        return side.groups[by]
    answer = side.answers.get(by)
    found = next((of(answer) for kind, of in _GROUPS.items() if isinstance(answer, kind)), [])
    return sorted(found, key=lambda group: -group.total)


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


def _of_calls(answer: ApiTable) -> list[Group]:
    return [row.calls for row in answer.rows]


_GROUPS: dict[type[Answer], Callable[..., list[Group]]] = {
    HostCosts: _of_host,
    IdleAnswer: _of_idle,
    CollectivesAnswer: _of_collectives,
    CriticalPathAnswer: _of_path,
    ApiTable: _of_calls,
}


def _collective(operation: str, smallest: int | None, largest: int | None) -> str:
    if smallest is None or largest is None:
        return operation
    return f"{operation} {size(smallest)}" + (f" to {size(largest)}" if smallest != largest else "")


def _added(rows: Iterable[tuple[str, int, int]]) -> list[Group]:
    """Returns a group for each key, with the sums of its times and counts."""
    found: dict[str, tuple[int, int]] = {}
    for key, time, count in rows:
        before = found.get(key, (0, 0))
        found[key] = before[0] + time, before[1] + count
    return [_group(key, time, count) for key, (time, count) in found.items()]


def _group(key: str, time: float, count: int | None) -> Group:
    return Group(key, time, count, time / count if count else None)
