"""The views on all rows of a trace, for many queries: its tables are in files that the processes of queries map."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.answers.query.answer import QueryAnswer, whole_numbers
from ktrace.analysis.answers.query.child import ChildQuestion
from ktrace.analysis.answers.query.children import Bound, Children, stored
from ktrace.analysis.answers.query.engine import CALL_COLUMNS, LAUNCHED, WORK_KEY, connected, everything
from ktrace.analysis.answers.query.loading import tables_of
from ktrace.model.batch import Batch
from ktrace.report import Report
from ktrace.scratch import new_folder
from ktrace.store import Spill


class Database:
    """The views of `ktrace.query` on all rows and columns of a trace, with labels if its batches have them.

    `nbytes` is the size of its files, which are removed once nothing refers to it.
    """

    def __init__(self, batches: Iterable[Batch]) -> None:
        folder = new_folder()
        weakref.finalize(self, folder.remove)
        with closing(Spill(1 << 62)) as spill:  # whoever keeps the batches bounds them
            tables = tables_of(batches, everything(), spill, Report())
            # The events with the columns of the calls that launched them, null where there is none
            events = tables["events"]
            launched = tables.pop(LAUNCHED)
            launched = launched.unify_dictionaries().combine_chunks()
            with connected() as connection:
                for name, table in (("work", events), ("calls", launched)):
                    keys = table.select(WORK_KEY).append_column("place", pa.array(np.arange(len(table))))
                    connection.register(name, keys)
                place = QueryAnswer.run(connection, _PLACES, None).read_all()["place"]
            for name in CALL_COLUMNS:
                events = events.append_column(name, launched[name].take(place))
            tables["events"] = events
            self._tables = stored(tables, folder.path)
        self.nbytes = sum(path.stat().st_size for path in folder.path.iterdir())

    def ask(
        self, children: Children, bound: Bound, sql: str, params: Mapping[str, Any] | None, *, rows: int, size: int
    ) -> pa.Table:
        """The first rows of an answer, of at most `size` bytes.

        Raises UsageError where the SQL is wrong, or isn't one query, KtraceError where it takes more than its bound.
        """
        question = ChildQuestion(sql, params, self._tables, joined=True, rows=rows, size=size)
        with children.one() as child:
            return whole_numbers(child.ask(question, bound).read_all())


#: The place of the call of each event, null where there is none.
_PLACES = (
    "SELECT min(c.place) AS place FROM work w LEFT JOIN calls c USING (source, id) GROUP BY w.place ORDER BY w.place"
)
