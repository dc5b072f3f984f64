"""Builds batches row by row, for readers of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import INTERNAL, Batch, arrow_schema
from ktrace.model.fitting import MISFITS, fitted
from ktrace.model.json_text import decoded, dump_json, encoded, load_json, load_object
from ktrace.model.masks import each_source, words_in
from ktrace.model.schema import RECORDS
from ktrace.model.text_sizes import MOST, row_texts

if TYPE_CHECKING:
    from ktrace.conversion import Conversion


class RowBuilder:
    """Collects rows of all records and yields them as batches of bounded size.

    A value that doesn't fit its column becomes an argument ("$grid_x"); a row whose time doesn't is reported, not used.

    The source label and, unless passed, the id of a row are filled in. A reader calls
    `yield from rows.ready()` now and then, and `yield from rows.rest()` at its end:

        rows.event("log", "Loading", ts=12_000_000, track="log")
        yield from rows.ready()
    """

    def __init__(self, conversion: Conversion, *, first_id: int = 1) -> None:
        self._conversion = conversion
        self._pending: dict[str, list[dict[str, Any]]] = {record: [] for record in RECORDS}
        self._json = 0  # characters of arguments and facts that wait
        self._next = first_id

    def event(self, kind: str, name: str, *, ts: int, timing: str = "measured", **columns: Any) -> int:
        """Adds an event and returns its id. `ts` and `dur` are int ns; `args` is a dict."""
        return self.add("events", kind=kind, name=name, ts=ts, timing=timing, **columns)

    def summary(self, kind: str, name: str, *, metric: str = "duration", **columns: Any) -> int:
        """Adds a summary and returns its id. All figures are in `unit`; `args` is a dict."""
        return self.add("summaries", kind=kind, name=name, metric=metric, **columns)

    def link(self, link: str, key: str, role: str, **columns: Any) -> int:
        """Adds one end of an arrow and returns its id."""
        return self.add("links", link=link, key=key, role=role, **columns)

    def fact(self, entity: str, **columns: Any) -> int:
        """Adds a fact to the catalog and returns its id. `facts` is a dict."""
        return self.add("catalog", entity=entity, **columns)

    def tool_and_clock(self, tool: str, clock: str, facts: Mapping[str, Any] | None = None) -> None:
        """Adds facts of the source, which a tool wrote, and the kind of its clock; those of "unix" are unix times."""
        self.fact("source", facts={"tool": tool, **(facts or {})})
        self.fact("clock", facts={"kind": clock} | ({"at_ns": 0, "unix_ns": 0} if clock == "unix" else {}))

    def add(self, record: str, **columns: Any) -> int:
        """Adds a row of any record. Columns are those of the model; None is the same as absent."""
        row = {name: value for name, value in columns.items() if value is not None}
        if isinstance(row.get("count"), int) and row["count"] < 0:  # the model has none
            own = row.get("args") or {}
            row["args"] = (load_json(own) if isinstance(own, str) else own) | {"$count": row.pop("count")}
        for name in ("args", "facts"):
            if isinstance(row.get(name), dict):
                row[name] = dump_json(row[name]) if row[name] else None
            if isinstance(row.get(name), str):
                self._json += len(row[name])
        row.setdefault("source", self._conversion.label)
        identity: int = row.setdefault("id", self._next)
        self._next = max(self._next, identity + 1)
        self._pending[record].append(row)
        return identity

    def reserve(self) -> int:
        """An id for a row that will be added later, below the ids of the rows added meanwhile."""
        self._next += 1
        return self._next - 1

    def expanded(self, size: int) -> None:
        """Counts bytes that references in the input gave. Raises DamagedInput beyond the limits."""
        self._conversion.expanded(size)

    def begin_at(self, identity: int) -> None:
        """Gives the rows that follow this id and those after it, which no other row may have."""
        self._next = identity

    def ready(self) -> Iterator[Batch]:
        """Yields the batches that are full, and all if they have much text."""
        size = self._conversion.batch_rows
        if self._json > MOST:
            yield from self.rest()
        for record, rows in self._pending.items():
            while len(rows) >= size:
                yield from self._fitting(record, rows[:size])
                del rows[:size]

    def rest(self) -> Iterator[Batch]:
        """Yields all remaining rows."""
        self._json = 0
        yield from self.ready()
        for record, rows in self._pending.items():
            if rows:
                yield from self._fitting(record, rows)
                rows.clear()

    def _fitting(self, record: str, rows: list[dict[str, Any]]) -> Iterator[Batch]:
        """Yields the rows as a batch, of much text as several, without those that can't be in it."""
        if len(rows) > 1 and row_texts(rows) > MOST:
            half = len(rows) // 2
            yield from self._fitting(record, rows[:half])
            yield from self._fitting(record, rows[half:])
            return
        try:
            yield to_batch(record, rows)
            return
        except MISFITS:
            kept = [sound for row in rows if (sound := self._fitted(record, row))]
        if kept:
            yield to_batch(record, kept)

    def _fitted(self, record: str, row: dict[str, Any]) -> dict[str, Any] | None:
        """The row with values that fit, None if it can't be in a batch; reports what is replaced or left out."""
        report, where = self._conversion.report, f"the row with the id {row['id']}"
        found = fitted(record, row)
        if found.replaced:
            report.issue("encoding", where)
        if found.row is None:
            counted = min(report.reader.given, 1)  # as used, by the reader
            report.used(-counted)
            report.issue("bad-record", where, found.reason, counted)
        return found.row


def to_batch(record: str, rows: list[dict[str, Any]]) -> Batch:
    """A batch of rows that are dicts. Columns that no row has are left out.

    Raises KeyError for a column that the model doesn't have.
    """
    schema = arrow_schema(record)
    used = set().union(*rows)
    unknown = {name for name in used - set(schema.names) - set(INTERNAL) if not name.startswith(("x_", "args."))}
    if unknown:
        raise KeyError(f"{record} have no column {', '.join(sorted(unknown))}")
    fields = [field for field in schema if field.name in used]
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in fields]
    for name in sorted(used - set(schema.names)):
        arrays.append(pa.array([row.get(name) for row in rows], INTERNAL.get(name)))
        fields.append(pa.field(name, arrays[-1].type))
    return Batch(record, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))


class NewIds:
    """Ids for rows that a stage adds, after the greatest of their source."""

    def __init__(self) -> None:
        self._greatest: dict[str, int] = {}

    @property
    def sources(self) -> list[str]:
        """The sources that were seen."""
        return list(self._greatest)

    def see(self, batch: Batch) -> None:
        """Looks at the ids of rows that are there."""
        for source, rows in each_source(batch):
            self._greatest[source] = max(self._greatest.get(source, 0), pc.max(rows.column("id")).as_py())

    def take(self, sources: pa.Array) -> pa.Int64Array:
        """The ids of new rows with these sources."""
        words = encoded(sources)
        codes, ids = words.indices.to_numpy(), np.zeros(len(words), np.int64)
        for code, source in enumerate(words.dictionary.to_pylist()):
            mine = np.flatnonzero(codes == code)
            last = self._greatest.get(source, 0)
            ids[mine] = last + 1 + np.arange(len(mine))
            self._greatest[source] = last + len(mine)
        return pa.array(ids)


def to_rows(batch: Batch) -> list[dict[str, Any]]:
    """The rows of a batch as dicts, without nulls. A dictionary column is decoded at once, not cell by cell."""
    rows: list[dict[str, Any]] = [{} for _ in range(len(batch))]
    for name, column in zip(batch.columns.schema.names, batch.columns.columns, strict=True):
        for row, value in zip(rows, decoded(column).to_pylist(), strict=True):
            if value is not None:
                row[name] = value
    return rows


#: So many remarks of a profiler are kept.
REMARKS = 64


def remarks_of(batch: Batch, most: int = REMARKS) -> list[tuple[str, str]]:
    """What the profiler said of its own run in a batch of summaries: ERROR, WARNING or "", and the text."""
    mine = words_in(batch.column("kind"), ("note",)) if most > 0 else None
    if mine is None or not mine.any():
        return []
    found = []
    for row in to_rows(Batch(batch.record, batch.columns.filter(pa.array(mine)).slice(0, most))):
        kind = load_object(row.get("args")).get("type")
        found.append((kind if isinstance(kind, str) else "", row.get("name") or ""))
    return found
