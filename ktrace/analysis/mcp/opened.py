"""A trace that stays open: its rows, read once, and what was computed of them, each once.

input ──► batches ──► Summary       with the first question, all that a summary answers
                └──► Database       with the first question in SQL
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktrace.analysis.query.kept import Database
from ktrace.analysis.summary.compute import summary_of
from ktrace.analysis.summary.summary import Summary
from ktrace.analysis.work.groups import BY
from ktrace.errors import KtraceError
from ktrace.input.limits import sized
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


def state_of(paths: Sequence[str]) -> list[tuple[int, int]]:
    """What changes with the content of local inputs: time and size of each, none of URLs."""
    found = [Path(path).stat() for path in paths if Path(path).exists()]
    return [(one.st_mtime_ns, one.st_size) for one in found]
