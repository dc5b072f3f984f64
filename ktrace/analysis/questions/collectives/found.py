"""The collectives of all ranks as columns, the same one on several ranks joined, and all ranks in one clock.

row   rank   operation    group   begin   duration   joint
0     0      all_reduce   tp      100     50         0
1     0      broadcast    dp      180     10         -1      on one rank only
2     1      all_reduce   tp      130     20         0

An all-reduce isn't over on any rank before the last one has joined, so it ends on all of them at nearly the same time.
Unix time decides, unless the ends agree much better after an alignment by collectives, as of hosts whose clocks differ.

    unix time      ends differ by 37 us      by collectives    ends differ by 0.2 us      the second is better
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ktrace.analysis.questions.collectives.rows import KERNEL, OP, UNKNOWN, CollectiveRows, Facts, moved
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import by_group
from ktrace.analysis.work.question import kernel_of
from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.catalog import Catalog
from ktrace.naming.taxonomy import SENDS, WAITING, operation_in
from ktrace.stages.align.collectives import CollectiveRow, Fit, Keyed, fits
from ktrace.stages.align.moves import Move, by_auto
from ktrace.store.joins import combined, distinct, is_among


class Rank(NamedTuple):
    """Where collectives run: a device, or a process if there are no devices."""

    source: str
    host: str | None
    pid: int | None
    device: int | None


class CollectiveKind(NamedTuple):
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


class CollectiveTable(msgspec.Struct):
    """The collectives with an end. `rank` and `kind` are indices of `ranks` and `kinds`; `size` and `seq` are -1 where
    they aren't known. `joint` numbers what several ranks do together, -1 for a row without a counterpart; `way` is how
    these were found (`ktrace.stages.align.collectives`), `by_time` that some were by their times.
    `of_calls` tells that these are calls of the host.
    `unfinished` is the number of those without an end, `confused` of those with the same number that turned out to
    differ. `id` and `own` are the ids of the rows, and their begin on the clock of the source; `fact` is the number of
    what the arguments state (`CollectiveRows.facts`).
    """

    ranks: list[Rank]
    kinds: list[CollectiveKind]
    id: Int64
    own: Int64
    ts: Int64
    dur: Int64
    seq: Int64
    size: Int64
    rank: Int32
    kind: Int32
    joint: Int64
    fact: Int32
    unfinished: int
    of_calls: bool
    way: int = 0
    confused: int = 0
    by_time: bool = False

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
        """Unmatches the given rows, and renumbers the collectives that remain."""
        self.joint[rows] = UNKNOWN
        there = self.joint >= 0
        counts = np.bincount(self.joint[there], minlength=1)
        several = counts > 1
        number = np.where(several, np.cumsum(several) - 1, UNKNOWN)
        self.joint[there] = number[self.joint[there]]


def build_table(rows: CollectiveRows, work: Work) -> CollectiveTable:
    """The collectives of all sources that the filter lets pass."""
    columns: list[dict[str, Any]] = []
    named = {*rows.named.sources}
    for source in rows.sources:
        of_source = rows.for_source(source)
        if len(of_source["grade"]) and of_source["grade"][0] == KERNEL:
            passed = is_among(of_source["id"], work.gathered.work.for_source(source)["id"])
            of_source = of_source if passed.all() else {name: column[passed] for name, column in of_source.items()}
            of_source = _with_names(rows, work, source, of_source) if source in named else of_source
        columns.append(of_source)
    names = ("id", "ts", "dur", "seq", "size", "facts", "shape")
    id_, ts, dur, seq, size, facts, shape = (np.concatenate([one[name] for one in columns]) for name in names)
    done = dur >= 0
    unfinished = int(np.count_nonzero(~done))
    id_, ts, dur, seq, size, facts, shape = (column[done] for column in (id_, ts, dur, seq, size, facts, shape))
    ranks: dict[Rank, int] = {}
    kinds: dict[CollectiveKind, int] = {}
    sizes, size_of = np.unique(size, return_inverse=True)
    shapes, every = rows.shapes.all(), rows.facts
    parts = ((facts, len(every)), (shape, len(shapes)), (size_of, len(sizes)))
    first, which = distinct(*combined(((part.astype(np.int64), count) for part, count in parts), len(ts)))
    table = []
    for place in first.tolist():
        one, stated = shapes[shape[place]], every[facts[place]]
        bytes_sent = int(size[place])
        kind = _kind(one, stated)
        rank = Rank(one["source"], one["host"], one["pid"], one["device"])
        whole = moved(kind.operation, stated, None if bytes_sent < 0 else bytes_sent)
        numbers = ranks.setdefault(rank, len(ranks)), kinds.setdefault(kind, len(kinds))
        table.append((*numbers, UNKNOWN if whole is None else whole))
    values = np.array(table, np.int64).reshape(-1, 3)[which]
    return CollectiveTable(
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
        facts,
        unfinished,
        of_calls=bool(columns) and all(np.all(one["grade"] == OP) for one in columns),
    )


def _with_names(rows: CollectiveRows, work: Work, source: str, columns: dict[str, Any]) -> dict[str, Any]:
    """The kernels of a source, those without a communicator with that of NCCL's range around their launch."""
    shapes = rows.shapes.all()
    bare = np.array([shapes[shape]["comm"] is None for shape in columns["shape"].tolist()], np.bool_)
    if not bare.any():
        return columns
    words = [shapes[shape]["name"] for shape in columns["shape"].tolist()]
    stated = rows.named.of_launches(work, source, columns["id"], words)
    facts, size = columns["facts"].copy(), columns["size"].copy()
    for place in np.flatnonzero(bare).tolist():
        call = stated[place]
        if call is not None:
            facts[place] = rows.number(Facts(call.operation, comm=call.comm))
            size[place] = UNKNOWN if call.size is None else call.size
    return columns | {"facts": facts, "size": size}


def _kind(shape: dict[str, Any], facts: Facts) -> CollectiveKind:
    comm = shape["comm"] or facts.comm
    group = " ".join(dict.fromkeys(word for word in (comm, facts.group) if word))
    key = None if comm is None else f"{comm} {facts.members or ''}"
    return CollectiveKind(facts.operation or operation_in(shape["name"]) or kernel_of(shape), key, group, facts.ranks)


class Matched(NamedTuple):
    """Collectives on one clock, as `clocks` says; `parted` were matched first, but don't overlap in time."""

    table: CollectiveTable
    clocks: Clocks
    parted: int


def match(rows: CollectiveRows, work: Work) -> Matched | None:
    """The collectives with an end, each with its counterparts on other ranks, on one clock; None without any."""
    table = build_table(rows, work) if len(rows) else None
    if table is None or not len(table):
        return None
    join(table)
    before = int(np.count_nonzero(table.joint >= 0))
    clocks = align(table, work.gathered.catalog)
    return Matched(table, clocks, before - int(np.count_nonzero(table.joint >= 0)))


def join(table: CollectiveTable) -> None:
    """Finds the same collective on several ranks, and fills in `joint`."""
    together = table.of_kinds([kind.joint for kind in table.kinds])
    rows = np.flatnonzero(together)
    rows_of = by_group(table.rank[rows], len(table.ranks))
    places = [rows[rows_of(rank)] for rank in range(len(table.ranks))]
    there = [rank for rank, rank_places in enumerate(places) if len(rank_places)]
    if len(there) < 2:
        return
    keyed = [Keyed(_as_rows(table, rank_places)) for rank_places in places]
    table.way = max(keyed[rank].way for rank in there)
    codes: dict[Any, int] = {}
    for rank in there:
        code = keyed[rank].places(table.way)
        numbers = [codes.setdefault(key, len(codes)) for key in code]
        table.joint[places[rank][list(code.values())]] = numbers
    table.part(np.zeros(len(table), np.bool_))
    _unmatch_conflicting(table)


def _as_rows(table: CollectiveTable, places: Int64) -> list[CollectiveRow]:
    """The rows as `CollectiveRow`, which `ktrace.stages.align` matches."""
    columns = table.kind, table.seq, table.size, table.ts, table.end
    return [
        CollectiveRow(table.kinds[kind].key, table.kinds[kind].operation, None if seq < 0 else seq, size, begin, end)
        for kind, seq, size, begin, end in zip(*(column[places].tolist() for column in columns), strict=True)
    ]


def _unmatch_conflicting(table: CollectiveTable) -> None:
    """Unmatches rows that share a number on several ranks but not the operation."""
    rows = np.flatnonzero(table.joint >= 0)
    if not len(rows):
        return
    operations: dict[str, int] = {}
    number = np.array([operations.setdefault(kind.operation, len(operations)) for kind in table.kinds])
    joint, operation = table.joint[rows], number[table.kind[rows]]
    first = np.zeros(joint.max() + 1, np.int64)
    first[joint] = operation
    differs = np.zeros(len(first), np.bool_)
    differs[joint[operation != first[joint]]] = True
    wrong = np.zeros(len(table), np.bool_)
    wrong[rows] = differs[joint]
    table.confused = int(np.count_nonzero(differs))
    table.part(wrong)


#: The ends must agree this many times better by collectives than by unix time.
_BETTER = 3

#: Ends that differ by less than this (ns) need no better alignment.
_GOOD = 10_000

#: About how many collectives are enough to align clocks by.
_ENOUGH = 4_000

#: Rules that don't relate clocks.
_GUESSES = ("begin", "as it is")


class Clocks(NamedTuple):
    """How the clocks of the ranks were aligned, or why they weren't.

    `rule` is "one" (a single clock), "unix", "collective", or "unknown"; `ends` is the median of how much the ends of
    the same collective differ, in ns; `moved` is the greatest correction by collectives, and `source` the one
    corrected by it.
    """

    rule: str
    ends: float | None = None
    source: str | None = None
    moved: int = 0


def align(table: CollectiveTable, catalog: Catalog) -> Clocks:
    """Moves the times of `table` into one clock if one is known, and takes apart what can't be the same collective."""
    sources = list(dict.fromkeys(rank.source for rank in table.ranks))
    waits = table.of_kinds([kind.waits for kind in table.kinds]) & (table.joint >= 0)
    if not np.any(table.joint >= 0):
        return Clocks("one" if len(sources) == 1 else "unknown")
    recorded = table.ts.copy()
    clocks = (
        Clocks("one", _ends(table, waits)) if len(sources) == 1 else _decided(table, waits, recorded, sources, catalog)
    )
    unmatched = _cannot_match(table, waits)
    if clocks.rule == "unknown" or np.count_nonzero(unmatched) > np.count_nonzero(waits) / 2:
        table.ts = recorded
        if table.way:
            table.part(np.ones(len(table), np.bool_))
        return Clocks("unknown", clocks.ends)
    table.part(unmatched)
    if table.way and unmatched.any():
        _join_by_time(table, ~_is_whole(table))
    return clocks


def _is_whole(table: CollectiveTable) -> Bools:
    """Which rows have a counterpart on as many ranks as any."""
    ranks = np.bincount(table.joint[table.joint >= 0], minlength=1)
    whole: Bools = (table.joint >= 0) & (ranks[table.joint] == ranks.max())
    return whole


def _join_by_time(table: CollectiveTable, some: Bools) -> None:
    """Finds the counterparts of some rows whose positions don't tell them, since a rank lacks the record of one.

    Collectives of one kind that run at the same time on several ranks are the same one, if they are of one size.
    """
    number = int(table.joint.max(initial=UNKNOWN))
    rows = np.flatnonzero(table.of_kinds([kind.waits for kind in table.kinds]) & some)
    rows = rows[np.argsort(table.end[rows], kind="stable")]
    latest: dict[tuple[int, int], tuple[int, int, set[int]]] = {}  # by kind and size: number, first end, ranks
    columns = (one[rows].tolist() for one in (table.kind, table.size, table.rank))
    for row, kind, size, rank in zip(rows.tolist(), *columns, strict=True):
        last = latest.get((kind, size))
        if last is None or rank in last[2] or int(table.ts[row]) >= last[1]:
            number += 1
            last = latest[kind, size] = (number, int(table.end[row]), set())
        last[2].add(rank)
        table.joint[row] = last[0]
    table.by_time = True
    table.part(np.zeros(len(table), np.bool_))


def _decided(table: CollectiveTable, waits: Bools, recorded: Int64, sources: list[str], catalog: Catalog) -> Clocks:
    """Moves the times by unix time or by collectives."""
    place = {source: number for number, source in enumerate(sources)}
    which = np.array([place[rank.source] for rank in table.ranks], np.int32)[table.rank]
    first = np.full(len(sources), np.iinfo(np.int64).max)
    np.minimum.at(first, which, recorded)
    there = np.bincount(which, minlength=len(sources)).tolist()
    begins = {source: time for source, time, any_ in zip(sources, first.tolist(), there, strict=True) if any_}
    placed = by_auto(sources, catalog, begins)
    related = not any(one.rule in _GUESSES for one in placed.values())
    unix = {source: one.move for source, one in placed.items()}
    _move(table, recorded, which, sources, unix)
    ends = _ends(table, waits)
    if related and (ends is None or ends <= _GOOD):
        return Clocks("unix", ends)
    if related and table.way and (by_time := _by_time(table)) is not None:
        return Clocks("unix", by_time)
    fitted = _fits(table, waits, recorded, which, sources)
    if fitted is None:
        return Clocks("unix" if related else "unknown", ends)
    moves = unix | {source: fit.move for source, fit in fitted.items()}
    _move(table, recorded, which, sources, moves)
    better = _ends(table, waits)
    far = {source: _correction(unix[source], moves[source], begins[source]) for source in fitted}
    source = max(far, key=lambda one: abs(far[one]))
    if not related:
        doubtful = any(fit.is_doubtful for fit in fitted.values())
        return Clocks("unknown" if doubtful else "collective", better)
    mistaken = table.way > 0 and abs(far[source]) > _spacing(table, waits) / 2  # a position may be counted wrongly
    if ends is not None and better is not None and ends > _BETTER * better and not mistaken:
        return Clocks("collective", better, source, far[source])
    _move(table, recorded, which, sources, unix)
    return Clocks("unix", ends)


#: By this part of the time from one collective to the next, their ends differ where clocks tell which is which.
_TELLS = 0.05


def _by_time(table: CollectiveTable) -> float | None:
    """By how much ends differ once collectives are matched by their time, as ranks have unequally many of a kind."""
    waits = table.of_kinds([kind.waits for kind in table.kinds])
    kinds = np.unique(table.kind[waits])
    counts = [np.bincount(table.rank[waits & (table.kind == kind)], minlength=len(table.ranks)) for kind in kinds]
    if all(len({*count[count > 0].tolist()}) <= 1 for count in counts):
        return None
    by_position = table.joint.copy()
    _join_by_time(table, waits)
    ends = _ends(table, waits & (table.joint >= 0))
    if ends is not None and ends <= max(_GOOD, _TELLS * _spacing(table, waits)):
        return ends
    table.joint, table.by_time = by_position, False
    return None


def _spacing(table: CollectiveTable, waits: Bools) -> float:
    """The typical time from one collective to the next on a rank."""
    rows = np.flatnonzero(waits)
    rows = rows[np.lexsort((table.ts[rows], table.rank[rows]))]
    gaps = np.diff(table.ts[rows])[np.diff(table.rank[rows]) == 0]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _correction(unix: Move, other: Move, at: int) -> int:
    return other.time(at) - unix.time(at)


def _fits(
    table: CollectiveTable, waits: Bools, recorded: Int64, which: Int32, sources: list[str]
) -> Mapping[str, Fit] | None:
    """The moves by collectives; of a source with several ranks, by the one that takes part in the most.

    Of many collectives some are enough: what is joint on the ranks is known already.
    """
    every = int(table.joint.max()) // _ENOUGH + 1
    rows: dict[str, list[CollectiveRow]] = {}
    some = np.flatnonzero(waits & (table.joint % every == 0))
    rows_of = by_group(which[some], len(sources))
    for number, source in enumerate(sources):
        source_rows = some[rows_of(number)]
        if not len(source_rows):
            continue
        source_rows = source_rows[table.rank[source_rows] == np.bincount(table.rank[source_rows]).argmax()]
        columns = table.joint[source_rows], recorded[source_rows], recorded[source_rows] + table.dur[source_rows]
        rows[source] = [
            CollectiveRow("", "", joint, None, begin, end)
            for joint, begin, end in zip(*(column.tolist() for column in columns), strict=True)
        ]
    if sources[0] not in rows or len(rows) < 2:
        return None
    try:
        return fits(rows)
    except InputError:
        return None


def _move(table: CollectiveTable, recorded: Int64, which: Int32, sources: list[str], moves: Mapping[str, Move]) -> None:
    ts, rows_of = recorded.copy(), by_group(which, len(sources))
    for number, source in enumerate(sources):
        rows = rows_of(number)
        ts[rows] = moves[source].times(recorded[rows])
    table.ts = ts


def _ends(table: CollectiveTable, waits: Bools) -> float | None:
    """The median of how much the ends of the same collective differ."""
    joint, end = table.joint[waits], table.end[waits]
    if not len(joint):
        return None
    low, high = extremes(joint, end)
    return float(np.median((high - low)[np.unique(joint)]))


def _cannot_match(table: CollectiveTable, waits: Bools) -> Bools:
    """Which rows are of a collective that would end on a rank before it begins on another."""
    unmatched = np.zeros(len(table), np.bool_)
    joint = table.joint[waits]
    if len(joint):
        _, last = extremes(joint, table.ts[waits])
        first_end, _ = extremes(joint, table.end[waits])
        unmatched[waits] = (last > first_end)[joint]
    return unmatched


def extremes(joint: Int64, times: Int64) -> tuple[Int64, Int64]:
    """The first and the last time of each number; both are 0 for a number that doesn't occur."""
    count = int(joint.max()) + 1
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, joint, times)
    np.maximum.at(high, joint, times)
    none = low > high
    low[none] = high[none] = 0
    return low, high
