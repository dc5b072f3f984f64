"""The names of tracks as viewers make them of ours: they add ids, sort by name and cut what is long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.model.tracks import Node, give_ids

#: A process id has 31 bits and a sign.
HIGHEST_PID = 2**31 - 1


def with_tids(taken: Sequence[int], names: Sequence[str]) -> list[tuple[int, str]]:
    """Returns thread ids that aren't taken, and names without them: a viewer shows "stream" and 7 as "stream 7"."""
    words = [name.rpartition(" ") for name in names]
    wanted = [int(digits) if word and digits.isdecimal() and len(digits) < 11 else None for word, _, digits in words]
    tids = give_ids([*dict.fromkeys(taken), *wanted], HIGHEST_PID)[-len(names) :] if names else []
    return [
        (tid, word if tid == number else name)
        for tid, number, name, (word, *_) in zip(tids, wanted, names, words, strict=True)
    ]


_THREAD = re.compile(r"thread ([0-9]+)(?: \((.+)\))?")


def without_tid(name: str, tid: int) -> str:
    """The name of a thread without its id, which the viewer adds; empty if nothing else is left.

    PyTorch calls a thread "thread 4243 (pt_autograd_0)".
    """
    match = _THREAD.fullmatch(name)
    return (match[2] or "") if match and match[1] == str(tid) else name


def in_order_of_names(names: Sequence[str]) -> list[str]:
    """Adds leading spaces to names so that a viewer that sorts by name keeps their order.

    The viewer sorts hardware queues, and tracks directly below a process, by name and ignores their rank. A page
    doesn't show leading spaces.
    """
    given: list[str] = []
    spaces = 0
    for name, following in zip(reversed(names), [None, *reversed(names)], strict=False):
        if following is not None and _sorted_by(name) > _sorted_by(following):
            spaces += 1
        given.append(" " * spaces + name)
    return given[::-1]


def _sorted_by(name: str) -> str:
    return name.lower()


def distinguishing(process: Node) -> str:
    """What distinguishes the GPUs of a process: its rank, or its host without domain, else its name."""
    if not process.shown.labels:
        return process.shown.name
    label = process.shown.labels[0]
    host = label.partition(".")[0]
    return label if host.isdigit() else host  # an address stays whole
