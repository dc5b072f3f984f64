"""SQL on tables that stay in memory: loaded once, then asked many times, in milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.query.answers import Answer, register, whole_numbers
from ktrace.analysis.query.engine import (
    CALL_COLUMNS,
    JOINED,
    JOINED_SCHEMA,
    LAUNCHED,
    WORK_KEY,
    connected,
    create_views,
    errors_as_ours,
    everything,
    is_several,
    table_schema,
)
from ktrace.analysis.query.loading import tables_of
from ktrace.errors import KtraceError
from ktrace.model.batch import RECORDS, Batch
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
            self._connection = stack.enter_context(connected(memory=memory))
            tables["events"] = _joined(self._connection, tables["events"], tables.pop(LAUNCHED))
            self.nbytes = sum(table.nbytes for table in tables.values())
            for record in RECORDS:
                schema = JOINED_SCHEMA if record == "events" else table_schema(record)
                register(self._connection, record, schema, tables[record])
            create_views(self._connection, JOINED)
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


#: The place of the call of each event, null where there is none.
_PLACES = (
    "SELECT min(c.place) AS place FROM work w LEFT JOIN calls c USING (source, id) GROUP BY w.place ORDER BY w.place"
)


def _joined(connection: Any, events: pa.Table, launched: pa.Table) -> pa.Table:
    """The events with the columns of the calls that launched them, null where there is none.

    A join with each question would take three times as long as the rest of it.
    """
    launched = launched.unify_dictionaries().combine_chunks()
    for name, table in (("work", events), ("calls", launched)):
        keys = table.select(WORK_KEY).append_column("place", pa.array(np.arange(len(table))))
        connection.register(name, keys)
    place = Answer.of(connection, _PLACES, None).read_all()["place"]
    for name in ("work", "calls"):
        connection.unregister(name)
    for name in CALL_COLUMNS:
        events = events.append_column(name, launched[name].take(place))
    return events
