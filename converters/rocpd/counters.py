"""rocpd_pmc_event: values of counters, as children of a kernel or a region, or as a series of samples over time.

event_id 9  pmc_id 4 (SQ_WAVES)  value 128      two instances of the counter, on two engines:
event_id 9  pmc_id 4 (SQ_WAVES)  value 120      SQ_WAVES 248, as rocprofv3 prints it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.rocm.common import MEANS, mean_counter
from ktrace.kit.sqlite.lookup import Children, Lookup, aligned
from ktrace.model.arrays import Float64, Int64, is_number
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .places import Ids, json_object, plain
from .slices import Tables

#: Greatest number of rows of one event that are kept together.
_MOST = 1 << 20

_PLACE = ("track_id", "nid", "pid", "tid", "agent_id", "queue_id", "stream_id")

#: Possible owners of a value: the table, the columns of its begin and end.
_OWNERS = (
    ("kernel_dispatch", "start", "end"),
    ("region", "start", "end"),
    ("memory_copy", "start", "end"),
    ("sample", "timestamp", "timestamp"),
)

#: Columns of a value that become arguments.
_MORE = ("xcc", "shader_engine", "shader_array", "wgp", "instance")

#: Columns of rocpd_info_pmc for counters that are computed from others, in newer schemas.
_DERIVED = ("is_derived", "expression")

_OWNER = pa.schema(
    {
        **{name: pa.int64() for name in ("key", "ts", "dur", "parent", "pid", "tid", "device", "stream")},
        "host": pa.string(),
        "track": pa.string(),
    }
)


class Counters:
    """The rows of rocpd_pmc_event."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        table = tables.part.table("pmc_event")
        self._about = tables.infos.table("info_pmc", "name", "symbol", "units", "agent_id", *_DERIVED)
        names = [_texts(self._about, name) for name in ("name", "symbol")]
        self._names = Ids(plain(self._about["id"]), pc.coalesce(*names))
        self._devices = units_of(tables)
        self._owners = {
            kind: Children(tables.database, owner, "event_id", [*_PLACE, *_times(start, end)], tables.part.where)
            for kind, start, end in _OWNERS
            if table and (owner := tables.part.table(kind)) and tables.database.has(owner, "event_id")
        }
        samples = tables.part.table("sample")
        self._samples = (
            Lookup(tables.database, samples, "id", _times("timestamp"), tables.part.where) if samples else None
        )

    def read(self) -> Iterator[Batch]:
        """Yields all values in the order of the table; adds up those of several instances of a counter."""
        tables, table = self._tables, self._tables.part.table("pmc_event")
        if table is None:
            return
        names = ["event_id", "pmc_id", "value", "sample_id", *_MORE]
        rest: pa.Table | None = None
        for block in tables.database.blocks(table, tables.conversion.batch_rows, names, where=tables.part.where):
            rows = self._sound(block)
            rows = pa.concat_tables([rest, rows]).combine_chunks() if rest is not None else rows
            whole = _whole_events(rows)
            rest = rows.slice(whole)
            yield from self._batches(rows.slice(0, whole))
        if rest is not None:
            yield from self._batches(rest)

    def _sound(self, block: Block) -> pa.Table:
        """Returns the rows with an event, a counter and a value; reports the others."""
        nothing = pa.nulls(len(block), pa.int64())
        columns = {name: block.get(name) for name in ("event_id", "pmc_id", "value", "sample_id", *_MORE)}
        rows = pa.table({name: nothing if column is None else column for name, column in columns.items()})
        value = plain(rows["value"])
        number = value.cast(pa.float64(), safe=False) if is_number(value.type) else pa.nulls(len(block), pa.float64())
        rows = rows.set_column(rows.schema.get_field_index("value"), "value", number)
        rows = rows.append_column("_rowid_", block.numbers)
        good = pc.and_(rows["value"].is_valid(), pc.and_(rows["pmc_id"].is_valid(), rows["event_id"].is_valid()))
        for row in np.flatnonzero(~good.to_numpy(zero_copy_only=False)).tolist():
            detail = "event_id, pmc_id or value isn't a number"
            self._tables.conversion.report.issue("bad-record", block.where(row), detail)
        return rows.filter(good)

    def _batches(self, rows: pa.Table) -> Iterator[Batch]:
        """Yields the values of complete events, in batches of the usual size."""
        if not len(rows):
            return
        first, count, total = _sums(rows)
        kept = rows.take(first)
        columns = self._owners_of(kept)
        timed = present(columns["ts"])
        report = self._tables.conversion.report
        for row in np.flatnonzero(~timed).tolist():
            place = f"{self._tables.part.tables['pmc_event']} row {kept['_rowid_'][row]}"
            report.issue("bad-record", place, f"no row has the event {kept['event_id'][row]}", int(count[row]))
        mask = pa.array(timed)
        columns = {name: column.filter(mask) for name, column in columns.items()}
        report.used(int(count[timed].sum()))
        yield from self._rows(kept.filter(mask), columns, total[timed], count[timed])

    def _rows(self, kept: pa.Table, columns: dict[str, Any], total: Float64, count: Int64) -> Iterator[Batch]:
        """Yields the counters, each followed by the mean that the GPU tab shows if its number of instances is known."""
        tables = self._tables
        ids = tables.ids_of("pmc_event", plain(kept["_rowid_"]))
        names = self._named(kept)
        means, units = self._means(names, columns["device"], count)
        columns |= {f"args.{name}": plain(kept[name]) for name in _MORE}
        symbols = Ids(plain(self._about["id"]), _texts(self._about, "units")).of(plain(kept["pmc_id"]))
        columns |= self._expressions(plain(kept["pmc_id"]))
        columns |= {
            "timing": pa.array(["measured"] * len(kept), pa.string()),
            "name": names,
            "unit": pc.if_else(pc.equal(symbols, ""), None, symbols),
            "value": pa.array(total),
        }
        table = pa.table(columns)
        if means is not None and len(at := np.flatnonzero(units)):
            derived = table.take(at)
            derived = derived.set_column(derived.schema.get_field_index("name"), "name", means.take(pa.array(at)))
            mean = pa.array(total[at] / units[at])
            derived = derived.set_column(derived.schema.get_field_index("value"), "value", mean)
            ours = pa.array(["derived"] * len(at), pa.string())
            derived = derived.set_column(derived.schema.get_field_index("timing"), "timing", ours)
            ids = np.concatenate([ids, ids[at] + 1])
            table = pa.concat_tables([table, derived])
        order = np.argsort(ids, kind="stable")
        table = table.take(order)
        ids = ids[order]
        size = tables.conversion.batch_rows
        for start in range(0, len(ids), size):
            part = table.slice(start, size)
            cells = {name: plain(part[name]) for name in part.column_names}
            yield tables.batches.batch("events", ids[start : start + size], kind="counter", **cells)

    def _expressions(self, numbers: pa.Array) -> dict[str, pa.Array]:
        """Arguments of counters that the profiler computed from others: that they are derived, and how."""
        ids_there = plain(self._about["id"])
        is_derived = pc.fill_null(pc.equal(numbers_of(self._about["is_derived"]), 1), False)
        facts = {
            "args.is_derived": pc.if_else(is_derived, 1, pa.scalar(None, pa.int64())),
            "args.expression": pc.if_else(is_derived, _texts(self._about, "expression"), None),
        }
        return {name: Ids(ids_there, column).of(numbers) for name, column in facts.items()}

    def _named(self, kept: pa.Table) -> pa.Array:
        numbers = plain(kept["pmc_id"])
        names = self._names.at(numbers).cast(pa.string())
        if names.null_count:
            lost = pc.unique(numbers.filter(names.is_null()))
            for number in lost.to_pylist():
                same = pc.equal(numbers, number)
                row = pc.index(same, True).as_py()
                place = f"{self._tables.part.tables['pmc_event']} row {kept['_rowid_'][row]}"
                self._tables.conversion.report.issue("missing-string", place, f"[counter {number}]", same.true_count)
            spare = pc.binary_join_element_wise("[counter ", numbers.cast(pa.string()), "]", "")
            names = pc.coalesce(names, spare)
        return names

    def _means(self, names: pa.Array, device: pa.Array, count: Int64) -> tuple[pa.Array | None, Int64]:
        """The name of the mean of each counter, and the divisor of its sum (0: it has no mean)."""
        units = np.zeros(len(names), np.int64)
        of = [name for name in pc.unique(names).to_pylist() if name in MEANS]
        if not of:
            return None, units
        devices = pc.fill_null(device, -1).to_numpy()
        for name in of:
            rows = pc.equal(names, name).to_numpy(zero_copy_only=False)
            for number in np.unique(devices[rows]).tolist():
                mean = mean_counter(name, *self._devices.get(number, (None, None)))
                here = rows & (devices == number)
                units[here] = np.where(count[here] > 1, count[here], mean[1] if mean else 0)
        return pc.binary_join_element_wise(names, "_avr", ""), units

    def _owners_of(self, kept: pa.Table) -> dict[str, Any]:
        """The time and the place of each value, and the row that it belongs to."""
        events = plain(kept["event_id"])
        owners = pa.concat_tables([self._found(kind, start, end, events) for kind, start, end in _OWNERS])
        columns = (
            aligned(events, owners, "key", self._tables.conversion.expanded)
            if len(owners)
            else {name: pa.nulls(len(kept), _OWNER.field(name).type) for name in _OWNER.names[1:]}
        )
        sampled = plain(kept["sample_id"])
        if self._samples and sampled.null_count < len(sampled):
            found_at = self._samples.get(sampled)
            at = found_at.get("timestamp", self._tables.times(found_at.get("timestamp_id")))
            at = pa.nulls(len(kept), pa.int64()) if at is None else at
            columns["ts"] = pc.if_else(sampled.is_valid(), at, columns["ts"])
            columns["dur"] = pc.if_else(sampled.is_valid(), None, columns["dur"])
        agents = Ids(plain(self._about["id"]), plain(self._about["agent_id"])).of(plain(kept["pmc_id"]))
        if agents is not None and pa.types.is_integer(agents.type):
            device = self._tables.infos.device.of(agents)
            placeless = pc.and_(columns["parent"].is_null(), columns["device"].is_null())
            columns["device"] = pc.if_else(placeless, device, columns["device"])
        return columns

    def _found(self, kind: str, start: str, end: str, events: pa.Array) -> pa.Table:
        """The rows of a table with these events that were read as rows of the model."""
        tables = self._tables
        children = self._owners.get(kind)
        of, columns = children.of(events) if children else (np.empty(0, np.int64), {})
        begin = columns.get(start, tables.times(columns.pop(f"{start}_id", None)))
        last = begin if end == start else columns.get(end, tables.times(columns.pop(f"{end}_id", None)))
        if not len(of) or begin is None or last is None:
            return _OWNER.empty_table()
        rowids = columns.pop("_rowid_")
        keys = columns.pop("event_id")
        place = tables.places.take(Block(kind, rowids, columns))
        work = kind in ("kernel_dispatch", "memory_copy")
        device = tables.infos.device.of(place["agent"])
        stream = tables.places.stream(place, device).get("stream") if work else None
        sample = kind == "sample"
        values = {
            "key": keys,
            "ts": begin,
            "dur": None if sample else pc.subtract(last, begin),
            "parent": None if sample else pa.array(tables.ids_of(kind, rowids)),
            "pid": place["pid"],
            "tid": None if work or sample else place["tid"],
            "device": device,
            "stream": stream,
            "host": place["host"],
            "track": tables.strings.column(Block(kind, rowids, {}), place["track"]) if sample else None,
        }
        arrays = [
            pa.nulls(len(keys), field.type) if values[field.name] is None else values[field.name].cast(field.type)
            for field in _OWNER
        ]
        return pa.Table.from_arrays(arrays, schema=_OWNER).filter(_has_valid_times(begin, last, at_zero=sample))


def _has_valid_times(begin: pa.Array, end: pa.Array, *, at_zero: bool) -> pa.Array:
    """Whether the times of rows are valid, so that the rows were read."""
    sound = pc.and_(pc.greater_equal(end, begin), pc.and_(pc.less(end, 1 << 62), pc.greater(begin, -(1 << 62))))
    ran = pc.or_(pc.not_equal(begin, 0), pc.not_equal(end, 0))
    return pc.fill_null(sound if at_zero else pc.and_(sound, ran), False)


def _whole_events(rows: pa.Table) -> int:
    """The number of rows before those of the last event, which may continue."""
    if not len(rows):
        return 0
    events = rows["event_id"].to_numpy()
    other = np.flatnonzero(events != events[-1])
    whole = int(other[-1]) + 1 if len(other) else 0
    return len(rows) if len(rows) - whole > _MOST else whole


def _sums(rows: pa.Table) -> tuple[Int64, Int64, Float64]:
    """First row, number of instances and sum for each counter of an event. Sampled values aren't added up."""
    events = rows["event_id"].to_numpy()
    run = np.concatenate(([0], np.cumsum(events[1:] != events[:-1])))
    counters = plain(rows["pmc_id"]).dictionary_encode()
    key = run * len(counters.dictionary) + counters.indices.to_numpy()
    sampled = present(rows["sample_id"])
    key[sampled] = -1 - np.flatnonzero(sampled)
    _, first, of, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(of, rows["value"].cast(pa.float64()).to_numpy()).astype(np.float64)
    order = np.argsort(first)
    return first[order].astype(np.int64), count[order].astype(np.int64), total[order]


def units_of(tables: Tables) -> dict[int, tuple[int | None, int | None]]:
    """Returns device -> number of XCCs and of shader engines, as far as its agent records them."""
    counts_of: dict[int, tuple[int | None, int | None]] = {}
    for row in tables.infos.agents.select(["id", "absolute_index", "extdata"]).to_pylist():
        facts = json_object(row["extdata"])
        number = row["id"] if row["absolute_index"] is None else row["absolute_index"]
        counts = [facts.get(key) for key in ("num_xcc", "num_shader_banks")]
        counts_of[number] = tuple(count if isinstance(count, int) else None for count in counts)  # type: ignore[assignment]
    return counts_of


def numbers_of(column: pa.ChunkedArray) -> pa.Array:
    """A column of whole numbers; all null if it has another type."""
    values = plain(column)
    return values if pa.types.is_integer(values.type) else pa.nulls(len(values), pa.int64())


def _texts(table: pa.Table, name: str) -> pa.Array:
    return plain(table[name]).cast(pa.string())


def _times(*names: str) -> list[str]:
    """Columns of times, and of the ids of rocpd_timestamp that may replace them."""
    return [*names, *(f"{name}_id" for name in names)]
