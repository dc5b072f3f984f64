"""SQL on tables that stay in memory: loaded once, then asked many times, in milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from ktrace.analysis.query.answers import Answer, show, whole_numbers
from ktrace.analysis.query.engine import connected, errors_as_ours, everything, is_several
from ktrace.analysis.query.loading import tables_of
from ktrace.errors import KtraceError
from ktrace.model.batch import Batch
from ktrace.report import Report
from ktrace.store.spill import Spill


class Database:
    """The views of `ktrace.query` on all rows and columns of a trace, with labels if its batches have them.

    `nbytes` is the size of its tables. A query takes at most `memory` bytes besides, and writes no files.
    """

    def __init__(self, batches: Iterable[Batch], memory: int) -> None:
        with ExitStack() as stack:
            spill = Spill(1 << 62)  # whoever keeps it bounds it
            stack.callback(spill.close)
            tables = tables_of(batches, everything(), spill, Report())
            self.nbytes = sum(table.nbytes for table in tables.values())
            self._connection = stack.enter_context(connected(memory=memory))
            show(self._connection, tables)
            self._open = stack.pop_all()

    def ask(self, sql: str, params: Mapping[str, Any] | None = None, *, rows: int, seconds: float) -> pa.Table:
        """The first rows of an answer.

        Raises UsageError where the SQL is wrong, or isn't one query, KtraceError where it takes longer than that.
        """
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._connection.interrupt()

        clock = threading.Timer(seconds, stop)
        clock.start()
        try:
            with errors_as_ours():
                is_several(self._connection, sql)  # raises for what isn't one query
                answer = Answer.of(self._connection, sql, params, rows)
            return whole_numbers(answer.read_all())
        except KtraceError:
            if late.is_set():
                raise KtraceError(
                    f"the query took longer than {seconds:g} s", remedy="ask for less: a filter, fewer joins"
                ) from None
            raise
        finally:
            clock.cancel()

    def close(self) -> None:
        """Frees the tables."""
        self._open.close()
