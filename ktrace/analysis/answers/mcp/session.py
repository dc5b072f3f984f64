"""The open traces of a server: their rows, read once, and what was computed of them, each once.

input ──► batches ──► Summary       with the first question, all that a summary answers
                └──► Database       with the first question in SQL; processes that all traces share run the queries

They are known by handles; the least recently used are closed where memory ends. What a trace takes is counted as it is:
batches as bytes without gaps (as readers hand them over they may keep a hundred times as much), and all objects.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import pyarrow as pa

from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.sizes import size_of
from ktrace.analysis.answers.query.children import Bound, Children
from ktrace.analysis.answers.query.database import Database
from ktrace.analysis.answers.summary.compute import summary_of
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.answers.whatif import WhatIf, whatif_of
from ktrace.analysis.answers.whatif.changes import Changes
from ktrace.analysis.work.groups import BY, GRID
from ktrace.errors import InputError, KtraceError, UsageError
from ktrace.input.companions import State, states_of
from ktrace.input.limits import sized
from ktrace.input.stores import is_remote
from ktrace.model.batch import Batch
from ktrace.naming.taxonomy import taxonomy
from ktrace.parallel.threads import Turns
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.store import deserialized, serialized

#: What is computed at once, with the first question; others are when they are asked.
USUAL = (*BY, "op", "module", "range", "api", "idle", "collective", "phase", "batch", "memory")

#: Seconds that a query may take.
SECONDS = 20.0

#: Bytes that a query may take in any case: DuckDB itself needs some.
LEAST = 64 << 20

#: Bytes of an answer to a query, at most, and of all that are kept.
ANSWER_BYTES = 64 << 20


class Opened:
    """A trace in memory, of one or several inputs; `memory` is the number of bytes that it may take.

    `repair_clock` is as in a `Selection`. `rows` counts its rows by record; a begin and an end that the source wrote
    apart are one.

    Several threads may use it; what two of them ask for is computed once. Raises InputError where the input can't be
    read, KtraceError where it takes more memory.
    """

    def __init__(
        self, name: str, paths: Sequence[str], memory: int, from_: str | None = None, *, repair_clock: bool = False
    ) -> None:
        self.name, self.paths, self.from_, self.state = name, list(paths), from_, state_of(paths)
        self.repair_clock = repair_clock
        self._memory, self._lock = memory, Lock()
        self.report = Report()
        self.rows: Counter[str] = Counter()
        self._rows: list[tuple[str, pa.Buffer]] = []
        self._summaries: OrderedDict[tuple[str, ...], tuple[Summary, int]] = OrderedDict()
        self._database: Database | None = None
        self._held = 0
        selection = Selection(classify=True, from_=from_, jobs=1, repair_clock=repair_clock)
        for batch in pair_halves(read_selected(self.paths, self.report, selection), self.report):
            content = serialized(batch.columns)
            self.rows[batch.record] += len(batch)
            self._rows.append((batch.record, content))
            self._take(content.size)
        self.report.require_balance()
        self.report.at = None  # keeps the reader, and what it has read
        self._take(size_of(self.report))

    @property
    def title(self) -> str:
        """The name of its file, of the first one where there are several."""
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{Path(self.paths[0]).name}{more}"

    @property
    def nbytes(self) -> int:
        """The bytes that it takes: of its rows, of what was computed of them, and of the files for queries."""
        return self._held + sum(size for _, size in list(self._summaries.values()))

    def summary(self, by: tuple[str, ...] = USUAL) -> Summary:
        """The summary with these groups and answers; the least recently used ones are dropped for it."""
        with self._lock:
            if by not in self._summaries:
                summary = summary_of(self._batches(), Report(), taxonomy(None), by)
                size = size_of(summary)
                self._fit(size)
                self._summaries[by] = summary, size
            self._summaries.move_to_end(by)
            return self._summaries[by][0]

    def whatif(self, changes: Changes) -> WhatIf:
        """What some changes would save."""
        with self._lock:
            return whatif_of(self._batches(), Report(), taxonomy(None), changes, self.title)

    def ask(
        self, children: Children, sql: str, params: Mapping[str, Any] | None, *, rows: int, size: int = ANSWER_BYTES
    ) -> pa.Table:
        """The first rows of the answer to a query. Raises UsageError, KtraceError where it needs too much."""
        with self._lock:
            if self._database is None:
                made = Database(self._batches())
                self._take(made.nbytes)
                self._database = made
        bound = Bound(max(self._memory, LEAST), SECONDS)
        return self._database.ask(children, bound, sql, params, rows=rows, size=size)

    def _batches(self) -> Iterator[Batch]:
        for record, content in self._rows:
            yield Batch(record, deserialized(content))

    def _take(self, size: int) -> None:
        self._fit(size)
        self._held += size

    def _fit(self, size: int) -> None:
        """Forgets summaries until so many bytes more fit. Raises KtraceError where they don't without any."""
        while self._summaries and self.nbytes + size > self._memory:
            self._summaries.popitem(last=False)
        if self.nbytes + size > self._memory:
            raise KtraceError(
                f"takes more than {sized(self._memory)} of memory",
                path=self.paths[0],
                remedy="start the server with more --memory, or convert a part of it first: ktrace convert --time",
            )


def state_of(paths: Sequence[str]) -> list[State]:
    """What changes with the content of local inputs, none of URLs."""
    return [state for path in paths if not is_remote(path) for state in states_of(path)]


#: What a comparison computes of each side: its tables, and what it tests launches by.
_COMPARED, _NEEDED = ("kernel", "operation", "layer"), ("kernel", "step", GRID)

#: Answers to queries, and comparisons, that are kept.
_ANSWERS, _DIFFS = 16, 16

#: Traces that are read at a time, and queries that run; traces that wait to be read.
_AT_ONCE, _WAITING = 2, 16

#: Handles of closed traces that are remembered, for the error that names them.
_CLOSED = 1_000


class Session:
    """What a server has open. `memory` is the number of bytes that all of it may take.

    Several threads may use it: one that waits for a long answer keeps the others waiting only for that same answer.
    """

    def __init__(self, access: Access, memory: int, children: Children | None = None) -> None:
        self.access = access
        self.children = children or Children(_AT_ONCE)
        self._memory, self._lock, self._reading = memory, RLock(), Turns("traces", _AT_ONCE, _WAITING)
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._closed: OrderedDict[str, str] = OrderedDict()
        self._handles, self._names = count(1), count(1)
        self._diffs: OrderedDict[tuple[str, str, tuple[str, ...]], tuple[Diff, int]] = OrderedDict()
        self._answers: OrderedDict[str, tuple[str, pa.Table]] = OrderedDict()

    def open(self, path: str, from_: str | None = None, *, repair_clock: bool = False) -> Opened:
        """Opens a trace, or returns that which is open already if nothing has changed. Raises what reading raises."""
        self.children.warm()
        paths = self.access.inputs(path)
        if opened := self._same(paths, from_, repair_clock=repair_clock):
            return opened
        with self._reading.one():
            if opened := self._same(paths, from_, repair_clock=repair_clock):  # another call has read it meanwhile
                return opened
            with self.access.in_force():
                made = Opened(f"t{next(self._handles)}", paths, self._memory, from_, repair_clock=repair_clock)
        with self._lock:
            self._opened[made.name] = made
            self.tidy()
        return made

    def _same(self, paths: list[str], from_: str | None, *, repair_clock: bool) -> Opened | None:
        """The open trace of these inputs, as they are now, read in this way."""
        sought = (paths, from_, repair_clock, state_of(paths))
        with self._lock:
            for one in self._opened.values():
                if (one.paths, one.from_, one.repair_clock, one.state) == sought:
                    return self.get(one.name)
        return None

    def unchanged(self, opened: Opened) -> list[str]:
        """The inputs of a trace, to be read again. Raises Refused, InputError where they changed since."""
        paths = [real for path in opened.paths for real in self.access.inputs(path)]
        if (paths, state_of(paths)) != (opened.paths, opened.state):
            raise InputError("has changed since it was opened", path=opened.paths[0], remedy="open it again")
        return paths

    def get(self, handle: str) -> Opened:
        """The trace behind a handle. Raises UsageError where it isn't open."""
        with self._lock:
            if handle in self._opened:
                self._opened.move_to_end(handle)
                return self._opened[handle]
            if handle in self._closed:
                what, path = f"'{handle}' was closed, since other traces needed its memory", self._closed[handle]
                raise UsageError(what, path=path, remedy="open it again; all traces may take what --memory says")
            names = ", ".join(self._opened) or "none is open"
            raise UsageError(f"no trace is open as '{handle}'", expected=names, remedy="open it")

    def diff(self, a: str, b: str, by: tuple[str, ...] = ()) -> Diff:
        """What changed from one open trace to another, computed once."""
        with self._lock:
            if (a, b, by) in self._diffs:
                return self._diffs[a, b, by][0]
        groups = (*dict.fromkeys((*sorted(by or _COMPARED), *_NEEDED)),)
        one, other = self.get(a), self.get(b)
        names = (one.title, other.title) if one.title != other.title else (a, b)
        sides = one.summary(groups), other.summary(groups)
        made = compared(*sides, by=by or None, names=names)
        with self._lock:
            self._diffs[a, b, by] = made, size_of(made, besides=sides)
            while len(self._diffs) > _DIFFS:
                self._diffs.popitem(last=False)
        return made

    def ask(self, opened: Opened, sql: str, params: Mapping[str, Any] | None = None, *, rows: int) -> pa.Table:
        """The first rows of the answer to a query. Raises UsageError, KtraceError where it needs too much."""
        return opened.ask(self.children, sql, params, rows=rows, size=min(ANSWER_BYTES, self._memory))

    def keep(self, handle: str, answer: pa.Table) -> str:
        """Keeps the answer to a query for its cursor, and returns the name of the answer."""
        with self._lock:
            name = f"q{next(self._names)}"
            self._answers[name] = handle, answer
            while len(self._answers) > _ANSWERS or (len(self._answers) > 1 and self._answered() > ANSWER_BYTES):
                self._answers.popitem(last=False)
            return name

    def kept(self, name: str) -> pa.Table:
        """The answer of that name. Raises UsageError where it isn't kept any more."""
        with self._lock:
            if name not in self._answers:
                raise UsageError(f"there is no answer '{name}' any more", remedy="ask again")
            return self._answers[name][1]

    def tidy(self) -> None:
        """Frees what was used least recently, until the rest fits into memory; the last trace stays."""
        with self._lock:
            while self._nbytes() > self._memory:
                if self._diffs:
                    self._diffs.popitem(last=False)
                elif len(self._answers) > 1:
                    self._answers.popitem(last=False)
                elif len(self._opened) > 1:
                    self._close(next(iter(self._opened)))
                else:
                    break

    def _nbytes(self) -> int:
        opened = sum(one.nbytes for one in self._opened.values())
        return opened + sum(size for _, size in self._diffs.values()) + self._answered()

    def _answered(self) -> int:
        return sum(one.nbytes for _, one in self._answers.values())

    def _close(self, handle: str) -> None:
        """Forgets a trace, with all that was computed of it; a call that uses it keeps it until it ends."""
        self._closed[handle] = self._opened.pop(handle).paths[0]
        while len(self._closed) > _CLOSED:
            self._closed.popitem(last=False)
        for key in [key for key in self._diffs if handle in key[:2]]:
            del self._diffs[key]
        for name in [name for name, (of, _) in self._answers.items() if of == handle]:
            del self._answers[name]

    def close(self) -> None:
        """Ends the processes of queries, and forgets all traces."""
        self.children.close()
        with self._lock:
            for handle in list(self._opened):
                self._close(handle)
