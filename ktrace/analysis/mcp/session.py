"""The open traces of a server: handles, the least recently used of which are closed where memory ends."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count

import pyarrow as pa

from ktrace.analysis.diff.compare import compared
from ktrace.analysis.diff.comparison import Diff
from ktrace.analysis.mcp.access import Access
from ktrace.analysis.mcp.opened import Opened, state_of
from ktrace.analysis.work.groups import GRID
from ktrace.errors import InputError, UsageError

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
