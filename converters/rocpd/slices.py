"""What the readers of all tables share: rows with valid times, their places, their events, and the arguments of calls.

Arguments are rows of rocpd_arg; those of an event are one JSON object:

event_id 7  position 0  name stream     value 0x55        {"stream":"0x55","sizeBytes":"4096"}
event_id 7  position 1  name sizeBytes  value 4096
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.rocm.common import executed
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Children, FirstId, Lookup, Texts
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded, load_json, quoted

from .places import Columns, Infos, ProcessTables, RocpdTracks, filled_columns, linked, unpacked_text


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


class Tables:
    """What all readers of the tables of a process share."""

    def __init__(
        self, database: Database, part: ProcessTables, ids: dict[str, FirstId], conversion: Conversion
    ) -> None:
        self.database = database
        self.part = part
        self.ids = ids
        self.conversion = conversion
        self.batches = BatchBuilder(conversion)
        self.infos = Infos(database, part)
        self.places = RocpdTracks(database, part, self.infos, conversion)
        self.strings = Texts(database, part.table("string"), "id", "string", conversion, part.where)
        self.arguments = Arguments(database, part, conversion)
        times = part.table("timestamp")
        self._times = Lookup(database, times, "id", ["value"], part.where) if times else None

    def blocks(self, kind: str, *, timed_by: tuple[str, str | None] = ("start", "end")) -> Iterator[Block]:
        """Yields the rows of a kind with valid times, without columns that are empty in all rows."""
        table = self.part.table(kind)
        if table is None:
            return
        filled = filled_columns(self.database, table, ["extdata"], self.part)
        unwanted = {"guid", "id", "extdata"} - set(filled)
        names = [name for name in self.database.tables[table] if name.casefold() not in unwanted]
        start, end = timed_by
        for given in self.database.blocks(table, self.conversion.batch_rows, names, where=self.part.where):
            times = {name: self.times(given.get(f"{name}_id")) for name in timed_by if name and given.get(name) is None}
            replacing = {name: column for name, column in times.items() if column is not None}
            block = given.without(*(f"{name}_id" for name in replacing)).replaced(replacing) if replacing else given
            ran = executed(block, self.conversion, start, end) if end else block
            sound = timed(ran, self.conversion, start, end)
            if len(sound):
                yield sound

    def times(self, ids: pa.Array | None) -> pa.Array | None:
        """The times for ids of rocpd_timestamp, None if there are no such ids or no such table."""
        if ids is None or self._times is None:
            return None
        return self._times.get(ids).get("value", pa.nulls(len(ids), pa.int64()))

    def ids_of(self, kind: str, rowids: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Returns the ids of rows of a kind."""
        return self.ids[self.part.tables[kind]].of(rowids)

    def take_common(self, block: Block) -> Columns:
        """Takes the columns that rows of all tables have: place, event and arguments.

        Returns the row's `columns`, and `place` and `event` for callers that need more of them.
        """
        texts = self.arguments.of(block, block.get("event_id"))
        event = self.places.events(block)
        place = self.places.take(block)
        extras = {f"args.{name}": json_cells(event.get(name)) for name in ("call_stack", "line_info")}
        extras["args.extdata"] = json_cells(block.take("extdata"))
        columns = {"host": place["host"], "pid": place["pid"], "args": texts, **linked(event), **extras}
        return {"place": place, "event": event, "columns": columns}

    def spans(self, kind: str, block: Block, columns: Columns) -> Batch:
        """Returns the rows of a kind from `start` to `end`, with these columns."""
        return self.batches.events(block, self.ids_of(kind, block.numbers), **block.span("start", "end"), **columns)


def json_cells(column: pa.Array | None) -> pa.Array | None:
    """A column of JSON as arguments; null for empty values. Text that isn't JSON becomes a JSON string."""
    if column is None or column.null_count == len(column):
        return None
    coded = encoded(unpacked(column))
    texts = [_json(text) for text in coded.dictionary.to_pylist()]
    return None if not any(texts) else pa.array(texts, pa.binary()).take(coded.indices)


def unpacked(column: pa.Array) -> pa.Array:
    """A column of texts, which may be stored as bytes, compressed with LZ4 or not."""
    if not pa.types.is_large_binary(column.type):
        return column
    return pa.array([unpacked_text(value) for value in column.to_pylist()], pa.string())


def _json(text: Any) -> bytes | None:
    """JSON text unchanged, None for an empty one, a JSON string for other text."""
    if not isinstance(text, str):
        return None if text is None else json.dumps(text).encode()
    if text.strip() in ("", "{}", "[]"):
        return None
    try:
        load_json(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False).encode()
    return text.encode()


class TableReader(ABC):
    """Reads the rows of one kind, a batch for each block of the table."""

    kind: str

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def read(self) -> Iterator[Batch]:
        """Yields all rows, in the order of the table."""
        for block in self._tables.blocks(self.kind):
            yield self._batch(block)

    @abstractmethod
    def _batch(self, block: Block) -> Batch:
        """Returns the rows of a block."""
