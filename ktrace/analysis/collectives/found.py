"""The collectives of all ranks as columns, and the same collective on several ranks joined.

row   rank   operation    group   begin   duration   joint
0     0      all_reduce   tp      100     50         0
1     0      broadcast    dp      180     10         -1      on one rank only
2     1      all_reduce   tp      130     20         0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.collectives.rows import KERNEL, OP, UNKNOWN, CollectiveRows, Facts, moved
from ktrace.analysis.work.device_work import Work
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.naming.taxonomy import SENDS, WAITING, operation_in
from ktrace.stages.align.collectives import CollectiveRow, Keyed
from ktrace.store.joins import combined, distinct


class Rank(NamedTuple):
    """Where collectives run: a device, or a process if there are no devices."""

    source: str
    host: str | None
    pid: int | None
    device: int | None


class Kind(NamedTuple):
    """What collectives have in common; `group` is for people, `key` tells groups apart."""

    operation: str
    key: str | None
    group: str
    ranks: int | None

    @property
    def waits(self) -> bool:
        """Whether no rank is done before the last one has begun."""
        return self.operation in WAITING

    @property
    def joint(self) -> bool:
        """Whether all ranks of a group take part together."""
        return self.operation not in SENDS


@dataclass
class Found:
    """The collectives with an end. `rank` and `kind` are indices of `ranks` and `kinds`; `size` and `seq` are -1 where
    they aren't known. `joint` numbers what several ranks do together, -1 for a row without a counterpart; `way` is how
    these were found (`ktrace.stages.align.collectives`). `of_calls` tells that these are calls of the host.
    `unfinished` is the number of those without an end, `confused` of those with the same number that turned out to
    differ. `id` and `own` are the ids of the rows, and their begin on the clock of the source.
    """

    ranks: list[Rank]
    kinds: list[Kind]
    id: Int64
    own: Int64
    ts: Int64
    dur: Int64
    seq: Int64
    size: Int64
    rank: Int32
    kind: Int32
    joint: Int64
    unfinished: int
    of_calls: bool
    way: int = 0
    confused: int = 0

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def end(self) -> Int64:
        """The end of each."""
        return self.ts + self.dur

    def of_kinds(self, test: Sequence[bool]) -> Bools:
        """Which rows have a kind that passes."""
        passes: Bools = np.array(test, np.bool_)[self.kind]
        return passes

    def part(self, rows: Bools) -> None:
        """Takes these rows out of what several ranks do together, and numbers the rest."""
        self.joint[rows] = UNKNOWN
        there = self.joint >= 0
        counts = np.bincount(self.joint[there], minlength=1)
        several = counts > 1
        number = np.where(several, np.cumsum(several) - 1, UNKNOWN)
        self.joint[there] = number[self.joint[there]]


def found_in(rows: CollectiveRows, work: Work) -> Found:
    """The collectives of all sources that the filter lets pass."""
    columns: list[dict[str, Any]] = []
    for source in rows.sources:
        mine = rows.of(source)
        if len(mine["grade"]) and mine["grade"][0] == KERNEL:
            passed = np.isin(mine["id"], work.gathered.work.of(source)["id"])
            mine = mine if passed.all() else {name: column[passed] for name, column in mine.items()}
            mine = _with_names(rows, work, source, mine)
        columns.append(mine)
    names = ("id", "ts", "dur", "seq", "size", "facts", "shape")
    id_, ts, dur, seq, size, facts, shape = (np.concatenate([one[name] for one in columns]) for name in names)
    done = dur >= 0
    unfinished = int(np.count_nonzero(~done))
    id_, ts, dur, seq, size, facts, shape = (column[done] for column in (id_, ts, dur, seq, size, facts, shape))
    ranks: dict[Rank, int] = {}
    kinds: dict[Kind, int] = {}
    sizes, size_of = np.unique(size, return_inverse=True)
    shapes, every = rows.shapes.all(), rows.facts
    parts = ((facts, len(every)), (shape, len(shapes)), (size_of, len(sizes)))
    first, which = distinct(*combined(((part.astype(np.int64), count) for part, count in parts), len(ts)))
    table = []
    for place in first.tolist():
        one, stated = shapes[shape[place]], every[facts[place]]
        known = int(size[place])
        kind = _kind(one, stated)
        rank = Rank(one["source"], one["host"], one["pid"], one["device"])
        whole = moved(kind.operation, stated, None if known < 0 else known)
        numbers = ranks.setdefault(rank, len(ranks)), kinds.setdefault(kind, len(kinds))
        table.append((*numbers, UNKNOWN if whole is None else whole))
    values = np.array(table, np.int64).reshape(-1, 3)[which]
    return Found(
        list(ranks),
        list(kinds),
        id_,
        ts,
        ts,
        dur,
        seq,
        values[:, 2],
        values[:, 0].astype(np.int32),
        values[:, 1].astype(np.int32),
        np.full(len(ts), UNKNOWN, np.int64),
        unfinished,
        of_calls=bool(columns) and all(np.all(one["grade"] == OP) for one in columns),
    )


def _with_names(rows: CollectiveRows, work: Work, source: str, mine: dict[str, Any]) -> dict[str, Any]:
    """The kernels of a source, those without a communicator with that of NCCL's range around their launch."""
    shapes = rows.shapes.all()
    bare = np.array([one["comm"] is None for one in shapes])[mine["shape"]]
    if source not in rows.named.sources or not bare.any():
        return mine
    words = [shapes[shape]["name"] for shape in mine["shape"].tolist()]
    stated = rows.named.of_launches(work, source, mine["id"], words)
    facts, size = mine["facts"].copy(), mine["size"].copy()
    for place in np.flatnonzero(bare).tolist():
        call = stated[place]
        if call is not None:
            facts[place] = rows.number(Facts(call.operation, comm=call.comm))
            size[place] = UNKNOWN if call.size is None else call.size
    return mine | {"facts": facts, "size": size}


def _kind(shape: dict[str, Any], facts: Facts) -> Kind:
    name = shape["short_name"] or shape["name"]
    comm = shape["comm"] or facts.comm
    group = " ".join(dict.fromkeys(word for word in (comm, facts.group) if word))
    key = None if comm is None else f"{comm} {facts.members or ''}"
    return Kind(facts.operation or operation_in(shape["name"]) or name, key, group, facts.ranks)


def join(found: Found) -> None:
    """Finds the same collective on several ranks, and fills in `joint`."""
    together = found.of_kinds([kind.joint for kind in found.kinds])
    places = [np.flatnonzero(together & (found.rank == rank)) for rank in range(len(found.ranks))]
    keyed = [Keyed(_as_rows(found, mine)) for mine in places]
    there = [rank for rank, mine in enumerate(places) if len(mine)]
    if len(there) < 2:
        return
    found.way = max(keyed[rank].way for rank in there)
    known: dict[Any, int] = {}
    for rank in there:
        own = keyed[rank].places(found.way)
        numbers = [known.setdefault(key, len(known)) for key in own]
        found.joint[places[rank][list(own.values())]] = numbers
    found.part(np.zeros(len(found), np.bool_))
    _part_confused(found)


def _as_rows(found: Found, places: Int64) -> list[CollectiveRow]:
    """These rows as the matching takes them."""
    columns = found.kind, found.seq, found.size, found.ts, found.end
    return [
        CollectiveRow(found.kinds[kind].key, found.kinds[kind].operation, None if seq < 0 else seq, size, begin, end)
        for kind, seq, size, begin, end in zip(*(column[places].tolist() for column in columns), strict=True)
    ]


def _part_confused(found: Found) -> None:
    """Takes apart what has the same number on several ranks, but isn't the same operation there."""
    rows = np.flatnonzero(found.joint >= 0)
    if not len(rows):
        return
    operations: dict[str, int] = {}
    number = np.array([operations.setdefault(kind.operation, len(operations)) for kind in found.kinds])
    joint, operation = found.joint[rows], number[found.kind[rows]]
    first = np.zeros(joint.max() + 1, np.int64)
    first[joint] = operation
    differs = np.zeros(len(first), np.bool_)
    differs[joint[operation != first[joint]]] = True
    wrong = np.zeros(len(found), np.bool_)
    wrong[rows] = differs[joint]
    found.confused = int(np.count_nonzero(differs))
    found.part(wrong)
