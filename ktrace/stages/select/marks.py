"""The rows that name a part of a trace: a range, a profiler's step, or any row whose name matches.

range   ProfilerStep#3   tid 4242     100 us .. 1105 us      the step
range   ProfilerStep#3   stream 7     139 us .. 1089 us      the same on the device, where its work may run later
kernel  ncclAllReduce    stream 20    631 us ..  749 us      around it
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from fnmatch import translate

import pyarrow as pa

from ktrace.errors import InputError
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.naming.alike import near
from ktrace.stages.select.intervals import NEVER, Intervals
from ktrace.store.events import LIMIT, values

Test = Callable[[str], bool]

#: Source, host and pid.
Process = tuple[str, str | None, int | None]

#: The most names that are remembered, to suggest similar ones for a name that isn't there.
_NAMES = 20_000


def called(pattern: str) -> Test:
    """A test whether a name is the pattern or matches it as a whole: * is any text, ? any character."""
    match = re.compile(translate(pattern)).match
    return lambda name: name == pattern or match(name) is not None


class Marks:
    """Collects the rows with some names and kinds from batches of events."""

    def __init__(self, test: Test, kinds: tuple[str, ...] = ()) -> None:
        self._is_named = NameTest(test)
        self._kinds = kinds
        self.names: dict[str, None] = {}
        self._host: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._device: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._own: defaultdict[Process, list[tuple[int, int]]] = defaultdict(list)
        self.ids: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, batch: Batch) -> None:
        """Collects the rows of a batch whose name and kind match."""
        found = self._named(batch)
        if self._kinds:
            found &= words_in(batch.column("kind"), self._kinds)
        if not found.any():
            return
        rows = batch.columns.filter(pa.array(found))
        ts, dur = rows.column("ts").to_pylist(), values(rows, "dur")
        mine = Batch("events", rows)
        placed = truth(mine.column("device").is_valid()) | truth(mine.column("stream").is_valid())
        lasts = ~words_in(mine.column("kind"), ("instant", "log", "sample", "counter"))
        texts = (decoded(mine.column(name)).to_pylist() for name in ("source", "name", "id", "host", "pid"))
        for row, (source, name, number, *process) in enumerate(zip(*texts, strict=True)):
            end = ts[row] + int(dur[0][row]) if dur[1][row] or not lasts[row] else LIMIT
            self.keep(source, name, ts[row], end, bool(placed[row]), number)
            if not placed[row]:
                self._own[(source, *process)].append((ts[row], end))

    def keep(self, source: str, name: str, begin: int, end: int, placed: bool, number: int) -> None:
        """Keeps a row; `placed` tells whether it is on a device."""
        (self._device if placed else self._host)[source].append((begin, end))
        self.ids[source].append(number)

    def _named(self, batch: Batch) -> Bools:
        """Which names match. The first `_NAMES` names are remembered."""
        names = batch.column("name")
        if len(self.names) < _NAMES:
            here = names.filter(pa.array(words_in(batch.column("kind"), self._kinds))) if self._kinds else names
            self.names.update(dict.fromkeys(decoded(here.unique()).to_pylist()))
        return self._is_named(names)

    def __bool__(self) -> bool:
        return bool(self.ids)

    def each(self) -> dict[str, Intervals]:
        """The intervals of each source: those on the host if it has any, else those on the device."""
        sources = {*self._host, *self._device}
        return {source: Intervals.of(self._host.get(source) or self._device[source]) for source in sources}

    def of_processes(self) -> dict[Process, Intervals]:
        """The intervals of each process that has any on the host."""
        return {process: Intervals.of(pairs) for process, pairs in self._own.items()}

    def on_devices(self) -> dict[str, Intervals]:
        """The intervals on the devices of each source, where their time may be later."""
        return {source: Intervals.of(pairs) for source, pairs in self._device.items() if pairs}

    @property
    def on_host(self) -> set[str]:
        """The sources that have any on the host."""
        return {source for source, pairs in self._host.items() if pairs}

    def around(self, margin: int) -> Intervals:
        """The intervals of all sources, with a margin before and after each."""
        pairs = [pair for by in (self._host, self._device) for found in by.values() for pair in found]
        wide = [(begin - margin, max(end, begin + 1) + margin) for begin, end in pairs]
        return Intervals.of(wide) if wide else NEVER


def no_such(what: str, wanted: str, names: dict[str, None]) -> InputError:
    """The error for a name that isn't there, with similar names."""
    some = (near(wanted, names) or list(names))[:5]
    return InputError(
        f"no {what} is called '{wanted}'",
        expected=f"one of {len(names):,} names, such as {', '.join(some)}" if some else None,
        remedy="use the whole name, or a pattern such as '*part of it*'",
    )
