"""The open traces of a server: their rows, read once, and what was computed of them, each once.

input ──► batches ──► Summary       with the first question, all that a summary answers
                └──► Database       with the first question in SQL

They are known by handles; the least recently used are closed where memory ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktrace.analysis.diff.compare import compared
from ktrace.analysis.diff.comparison import Diff
from ktrace.analysis.mcp.access import Access
from ktrace.analysis.query import Database
from ktrace.analysis.summary.compute import summary_of
from ktrace.analysis.summary.summary import Summary
from ktrace.analysis.work.groups import BY, GRID
from ktrace.errors import InputError, KtraceError, UsageError
from ktrace.input.companions import State, states_of
from ktrace.input.limits import sized
from ktrace.input.stores import is_remote
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.naming.taxonomy import taxonomy
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves

#: What is computed at once, with the first question; others are when they are asked.
USUAL = (*BY, "op", "module", "range", "api", "idle", "collective", "phase", "batch", "memory")

#: Seconds that a query may take.
SECONDS = 20.0


class Opened:
    """A trace in memory, of one or several inputs; `memory` is the number of bytes that it may take.

    Raises InputError where the input can't be read, KtraceError where it takes more memory.
    """

    def __init__(self, name: str, paths: Sequence[str], memory: int, from_: str | None = None) -> None:
        self.name, self.paths, self.from_, self.state = name, list(paths), from_, state_of(paths)
        self._memory = memory
        self.report, self.catalog = Report(), Catalog()
        self._batches: list[Batch] = []
        self._summaries: dict[tuple[str, ...], Summary] = {}
        self._database: Database | None = None
        self.nbytes = 0
        selection = Selection(classify=True, from_=from_, jobs=1)
        for batch in pair_halves(read_selected(self.paths, self.report, selection), self.report):
            if batch.record == "catalog":
                self.catalog.add(batch)
            self._batches.append(batch)
            self._take(batch.columns.nbytes)
        self.report.require_balance()

    @property
    def title(self) -> str:
        """The name of its file, of the first one where there are several."""
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{Path(self.paths[0]).name}{more}"

    def summary(self, by: tuple[str, ...] = USUAL) -> Summary:
        """The summary with these groups and answers, computed once."""
        if by not in self._summaries:
            found = summary_of(self._batches, Report(), taxonomy(None), by)
            groups = (one for own in found.groups.values() for one in own)
            self._take(sum(one.durations.nbytes for one in groups if one.durations is not None))
            self._summaries[by] = found
        return self._summaries[by]

    def ask(self, sql: str, params: Mapping[str, Any] | None = None, *, rows: int) -> pa.Table:
        """The first rows of the answer to a query. Raises UsageError, KtraceError where it needs too much."""
        if self._database is None:
            made = Database(self._batches, self._memory)
            try:
                self._take(made.nbytes)
            except KtraceError:
                made.close()
                raise
            self._database = made
        return self._database.ask(sql, params, rows=rows, seconds=SECONDS)

    def close(self) -> None:
        """Frees what it holds."""
        self._batches.clear()
        self._summaries.clear()
        if self._database is not None:
            self._database.close()

    def _take(self, size: int) -> None:
        if self.nbytes + size > self._memory:
            raise KtraceError(
                f"takes more than {sized(self._memory)} of memory",
                path=self.paths[0],
                remedy="start the server with more --memory, or convert a part of it first: ktrace convert --time",
            )
        self.nbytes += size


def state_of(paths: Sequence[str]) -> list[State]:
    """What changes with the content of local inputs, none of URLs."""
    return [state for path in paths if not is_remote(path) for state in states_of(path)]


#: What a comparison computes of each side: its tables, and what it tests launches by.
_COMPARED, _NEEDED = ("kernel", "operation", "layer"), ("kernel", "step", GRID)

#: Answers to queries that are kept for their cursors, and their bytes.
_ANSWERS, _ANSWER_BYTES = 16, 64 << 20


class Session:
    """What a server has open. `memory` is the number of bytes that all open traces may take together.

    It answers one call at a time.
    """

    def __init__(self, access: Access, memory: int) -> None:
        self.access = access
        self._memory = memory
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._handles, self._names = count(1), count(1)
        self._diffs: dict[tuple[str, str, tuple[str, ...]], Diff] = {}
        self._answers: OrderedDict[str, tuple[str, pa.Table]] = OrderedDict()

    def open(self, path: str, from_: str | None = None) -> Opened:
        """Opens a trace, or returns that which is open already if nothing has changed. Raises what reading raises."""
        paths = self.access.inputs(path)
        for one in self._opened.values():
            if (one.paths, one.from_, one.state) == (paths, from_, state_of(paths)):
                return self.get(one.name)
        with self.access.in_force():
            made = Opened(f"t{next(self._handles)}", paths, self._memory, from_)
        self._opened[made.name] = made
        self.tidy()
        return made

    def unchanged(self, opened: Opened) -> list[str]:
        """The inputs of a trace, to be read again. Raises Refused, InputError where they changed since."""
        paths = [real for path in opened.paths for real in self.access.inputs(path)]
        if (paths, state_of(paths)) != (opened.paths, opened.state):
            raise InputError("has changed since it was opened", path=opened.paths[0], remedy="open it again")
        return paths

    def get(self, handle: str) -> Opened:
        """The trace behind a handle. Raises UsageError where it isn't open."""
        if handle not in self._opened:
            names = ", ".join(self._opened) or "none is open"
            raise UsageError(f"no trace is open as '{handle}'", expected=names, remedy="open it, again if it was open")
        self._opened.move_to_end(handle)
        return self._opened[handle]

    def diff(self, a: str, b: str, by: tuple[str, ...] = ()) -> Diff:
        """What changed from one open trace to another, computed once."""
        if (a, b, by) not in self._diffs:
            groups = tuple(dict.fromkeys((*(by or _COMPARED), *_NEEDED)))
            one, other = self.get(a), self.get(b)
            names = (one.title, other.title) if one.title != other.title else (a, b)
            self._diffs[a, b, by] = compared(one.summary(groups), other.summary(groups), by=by or None, names=names)
        return self._diffs[a, b, by]

    def keep(self, handle: str, answer: pa.Table) -> str:
        """Keeps the answer to a query for its cursor, and returns the name of the answer."""
        name = f"q{next(self._names)}"
        self._answers[name] = handle, answer
        while len(self._answers) > _ANSWERS or (
            len(self._answers) > 1 and sum(one.nbytes for _, one in self._answers.values()) > _ANSWER_BYTES
        ):
            self._answers.popitem(last=False)
        return name

    def kept(self, name: str) -> pa.Table:
        """The answer of that name. Raises UsageError where it isn't kept any more."""
        if name not in self._answers:
            raise UsageError(f"there is no answer '{name}' any more", remedy="ask again")
        return self._answers[name][1]

    def tidy(self) -> None:
        """Closes the traces that were used least recently, until the others fit into memory; the last one stays."""
        while len(self._opened) > 1 and sum(one.nbytes for one in self._opened.values()) > self._memory:
            self.close(next(iter(self._opened)))

    def close(self, handle: str) -> None:
        """Closes a trace, with all that was computed of it."""
        self._opened.pop(handle).close()
        self._diffs = {key: one for key, one in self._diffs.items() if handle not in key[:2]}
        for name in [name for name, (of, _) in self._answers.items() if of == handle]:
            del self._answers[name]
