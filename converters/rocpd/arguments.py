"""rocpd_arg: the arguments of calls, one in each row, as a JSON object of the row with the same event.

event_id 7  position 0  name stream     value 0x55        {"stream":"0x55","sizeBytes":"4096"}
event_id 7  position 1  name sizeBytes  value 4096
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite.database import Database
from ktrace.kit.sqlite.lookup import Children
from ktrace.model.json_text import quoted

from .process_tables import ProcessTables


class Arguments:
    """The rows of rocpd_arg. C types and positions of arguments aren't kept."""

    def __init__(self, database: Database, part: ProcessTables, conversion: Conversion) -> None:
        table = part.table("arg")
        self._table = table
        self._report = conversion.report
        self._rows = (
            Children(database, table, "event_id", ["name", "value"], part.where, counted=True) if table else None
        )
        self._taken = 0

    def of(self, block: Block, events: pa.Array | None) -> pa.Array | None:
        """Returns the arguments of each event as JSON text, null for none; None if no event has any."""
        if self._rows is None or not self._rows.rows or events is None:
            return None
        of, columns = self._rows.of(events)
        if not len(of) or "name" not in columns:
            return None
        self._taken += len(of)
        names = pc.fill_null(columns["name"].cast(pa.string()), "")
        last = _last_of_each(of, names)
        if len(last) < len(of):
            self._report.issue("duplicate-key", block.where(int(of[0])), "an argument twice", len(of) - len(last))
            of, names = of[last], names.take(pa.array(last))
            columns = {name: column.take(pa.array(last)) for name, column in columns.items()}
        values = columns.get("value", pa.nulls(len(of), pa.string())).cast(pa.string())
        members = pc.binary_join_element_wise(quoted(names), pc.fill_null(quoted(values), "null"), ":")
        ends = np.cumsum(np.bincount(of, minlength=len(block)))
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate(([0], ends)).astype(np.int32)), members)
        texts = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        return pc.if_else(pc.equal(texts, "{}"), None, texts)

    def close(self) -> None:
        """Accounts for the rows of the table."""
        if self._rows is None:
            return
        taken = min(self._taken, self._rows.rows)
        self._report.used(taken, outcome="args")
        if lost := self._rows.rows - taken:
            self._report.issue("bad-record", str(self._table), "no row has the event of these arguments", lost)


def _last_of_each(
    of: np.ndarray[tuple[int], np.dtype[np.int64]], names: pa.Array
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The indices of the rows; of rows with the same name for the same event only the last."""
    coded = names.dictionary_encode()
    keys = of * len(coded.dictionary) + coded.indices.to_numpy()
    _, first = np.unique(keys[::-1], return_index=True)
    return np.sort(len(keys) - 1 - first)
