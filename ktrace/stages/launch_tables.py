"""Lays out launches that have a stream and metrics, but no time.

    id  parent  kind    name  metric              total   stream           stream 7
    1           kernel  gemm  duration            30 us   7          ──►   [ gemm           ][ norm ]
    2   1       metric        sm__throughput..    63.7 %                   63.7 %            12.9 %
    3           kernel  norm  duration            10 us   7                0                 30    40 us

They follow one another in the order of the source, each with its duration, on the stream where they ran: as if nothing
had overlapped, which is how profilers that replay kernels run them. Metrics are counters of their kernel; metrics about
its launch, texts and notes are its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch, arrow_schema
from ktrace.model.json_text import decoded, dump_json, load_object
from ktrace.model.masks import present
from ktrace.model.schema import columns_in
from ktrace.naming.alike import unique_name
from ktrace.report import Ledger
from ktrace.store.joins import distinct_rows, positions

#: The clock of samples whose times count from the start of the launch that is their parent.
LAUNCH_CLOCK = "launch"

#: Metrics about the launch of a kernel and its device: arguments, not counters.
_OF_LAUNCH = r"^(?:launch__|device__|sm__maximum_warps_)"

#: The space for a launch whose duration isn't known, so that no two are at the same time: 1 us.
_EXTENT = 1000

#: A launch with a longer duration (104 days) is drawn as one whose duration isn't known.
_LONGEST = 2.0**53

#: Columns that a kernel copies from its row, and those that its metrics copy from the kernel.
_PLACE = (*(name for name in columns_in("place") if name != "track"), "clock")
_KERNEL = (*_PLACE, "cat", *columns_in("label", "grid", "launch", "transfer"), "args")

#: The columns that are kept until all rows of a launch have come.
_COLUMNS = ("source", "id", "parent", "kind", "name", "metric", "unit", "value", "total", "count", "avg", "scope")


def is_launch(batch: Batch) -> Bools:
    """Which summaries are launches: device work with a stream or context, but without a time."""
    if not batch.has("stream") and not batch.has("context"):
        return np.zeros(len(batch), np.bool_)
    placed = pc.or_(batch.column("stream").is_valid(), batch.column("context").is_valid())
    device = pc.is_in(decoded(batch.column("kind")), pa.array(DEVICE_KINDS))
    timed = pc.equal(decoded(batch.column("metric")), "duration")
    free = pc.and_(batch.column("parent").is_null(), batch.column("ts").is_null())
    result: Bools = pc.and_(pc.and_(placed, device), pc.and_(timed, free)).to_numpy(zero_copy_only=False)
    return result


def is_sampled(batch: Batch) -> bool:
    """Whether all times of a batch count from the start of the launch that is the parent; a batch doesn't mix these."""
    if not batch.has("clock") or not batch.has("parent"):
        return False
    clock = decoded(batch.column("clock"))
    return bool(pc.all(pc.fill_null(pc.equal(clock, LAUNCH_CLOCK), False)).as_py())


class Launches:
    """Lays out the launches of one source. Keeps the last one, which may be incomplete, and the places of all."""

    def __init__(self, ledger: Ledger, start: int) -> None:
        self._ledger = ledger
        self._cursor = start
        self._pending: pa.Table | None = None  # the last launch, and its metrics so far
        self._placed: list[pa.Table] = []  # id, ts, dur and place of all launches

    def feed(self, batch: Batch) -> tuple[Batch | None, list[Batch]]:
        """The rows that don't belong to launches, and the events of launches that are complete."""
        heads = is_launch(batch)
        if not heads.any() and self._pending is None:
            return batch, []
        is_ours = heads | self._is_detail(batch, batch.column("id").filter(pa.array(heads)))
        others = None if is_ours.all() else Batch("summaries", batch.columns.filter(pa.array(~is_ours)))
        if not is_ours.any():
            return others, []
        self._ledger.taken += int(is_ours.sum())
        rows = _plain(batch).filter(pa.array(is_ours))
        is_head = heads[is_ours]
        if self._pending is not None:
            is_head = np.concatenate([self._pending["head"].to_numpy(), is_head])
            rows = pa.concat_tables([self._pending.drop_columns("head"), rows], promote_options="default")
        last = int(np.flatnonzero(is_head)[-1]) if is_head.any() else 0
        self._pending = rows.slice(last).append_column("head", pa.array(is_head[last:]))
        return others, list(self._events(rows.slice(0, last), is_head[:last]))

    def finish(self) -> list[Batch]:
        """The events of the last launch."""
        pending, self._pending = self._pending, None
        return [] if pending is None else list(self._events(pending.drop_columns("head"), pending["head"].to_numpy()))

    def samples(self, batch: Batch) -> Iterator[Batch]:
        """Yields samples (`is_sampled`) at the time of their launch, without those before its start or after its end.

        They come from another replay of the launch, so they aren't its metrics and have no parent.
        """
        ids, begins, extents = self._places()
        order = np.argsort(ids)
        parent = batch.column("parent").to_numpy(zero_copy_only=False)
        at = positions(parent, ids[order])
        has_launch = at >= 0
        launch = order[at[has_launch]]
        ts = batch.column("ts").to_numpy(zero_copy_only=False)
        inside = has_launch.copy()
        inside[has_launch] = (ts[has_launch] >= 0) & (ts[has_launch] < extents[launch])
        self._ledger.given += int(inside.sum())
        if not has_launch.all():
            self._ledger.removed["launch left out"] += int((~has_launch).sum())
        if (has_launch & ~inside).any():
            self._ledger.removed["outside of the launch"] += int((has_launch & ~inside).sum())
        if not inside.any():
            return
        kept = batch.columns.filter(pa.array(inside)).drop_columns(["parent", "clock", "timing"])
        moved = pa.array(ts[inside] + begins[launch[inside[has_launch]]])
        made = {name: kept.column(name) for name in kept.schema.names} | {"ts": moved}
        yield _batch(made, kept.num_rows)

    def _places(self) -> tuple[Int64, Int64, Int64]:
        """Id, begin and extent of all launches, including the last one."""
        parts = [tuple(table[name].to_numpy() for name in ("id", "ts", "dur")) for table in self._placed]
        if self._pending is not None:
            heads = self._pending.filter(self._pending["head"])
            width = _widths(heads)
            begins = self._cursor + np.cumsum(np.where(width > 0, width, _EXTENT)) - np.where(width > 0, width, _EXTENT)
            parts.append((heads["id"].to_numpy(), begins, width))
        if not parts:
            return (np.zeros(0, np.int64),) * 3
        ids, begins, widths = (np.concatenate([part[which] for part in parts]) for which in range(3))
        return ids, begins, np.where(widths > 0, widths, _EXTENT)

    def _is_detail(self, batch: Batch, new: pa.Array) -> Bools:
        """Which rows are metrics and notes of launches."""
        if not batch.has("parent"):
            return np.zeros(len(batch), np.bool_)
        ids = [new, *(chunk for table in self._placed for chunk in table["id"].chunks)]
        if self._pending is not None:
            ids += self._pending["id"].filter(self._pending["head"]).chunks
        kind = pc.is_in(decoded(batch.column("kind")), pa.array(("metric", "note")))
        is_detail = pc.and_(kind, pc.is_in(batch.column("parent"), pa.concat_arrays(ids)))
        result: Bools = is_detail.to_numpy(zero_copy_only=False)
        return result

    def _events(self, rows: pa.Table, is_head: Bools) -> Iterator[Batch]:
        """Yields the kernels and counters of complete launches."""
        if not len(rows):
            return
        heads = rows.filter(pa.array(is_head))
        details = rows.filter(pa.array(~is_head))
        # each launch gets a time
        width = _widths(heads)
        extent = np.where(width > 0, width, _EXTENT)
        ends = self._cursor + np.cumsum(extent)
        self._cursor = int(ends[-1]) if len(ends) else self._cursor
        columns = {"id": heads["id"], "ts": pa.array(ends - extent), "dur": pa.array(width)}
        columns |= {name: heads[name] for name in _PLACE if name in heads.schema.names}
        places = pa.table(columns)
        self._placed.append(places)
        of = pc.index_in(details["parent"], self._ids()).to_numpy()  # all launches are placed by now
        figure = present(details["value"])
        argument = pc.match_substring_regex(details["metric"], _OF_LAUNCH).to_numpy()
        counter = figure & ~argument
        twice = _repeated(details, of, counter)
        kernels = {name: places[name] for name in ("id", "ts", "dur")}
        kernels |= {name: heads[name] for name in ("source", "kind", "name", *_KERNEL) if name in heads.schema.names}
        plain = np.flatnonzero(~counter)
        first = len(self._ids()) - len(heads)
        arguments = _arguments(details.take(pa.array(plain)), of[plain] - first, heads)
        yield _batch({**kernels, **arguments}, len(heads))
        drawn = np.flatnonzero(counter & ~twice)
        yield from self._counters(details.take(pa.array(drawn)), of[drawn])
        self._ledger.given += len(heads) + len(drawn)
        if len(plain):
            self._ledger.removed["argument of a slice"] += len(plain)
        if twice.any():
            self._ledger.removed["said twice"] += int(twice.sum())

    def _ids(self) -> pa.Array:
        return pa.chunked_array([chunk for table in self._placed for chunk in table["id"].chunks], pa.int64())

    def _counters(self, rows: pa.Table, of: Int64) -> Iterator[Batch]:
        """Yields the metrics as counters at the start of their kernel."""
        if not len(rows):
            return
        places = pa.concat_tables(self._placed, promote_options="default").take(pa.array(of))
        columns = {"source": rows["source"], "id": rows["id"], "parent": rows["parent"]}
        columns |= {name: places[name] for name in places.schema.names if name != "id"}
        columns |= {"name": rows["metric"], "value": rows["value"], "unit": rows["unit"]}
        columns["kind"] = pa.array(["counter"]).take(pa.array(np.zeros(len(rows), np.int64)))
        yield _batch(columns, len(rows))


def _widths(heads: pa.Table) -> Int64:
    """The duration of each launch, 0 where it isn't known."""
    several = pc.multiply(heads["count"].cast(pa.float64()), heads["avg"])
    figure = pc.coalesce(heads["total"], several, heads["value"]).to_numpy()
    in_ns = pc.fill_null(pc.equal(heads["unit"], "ns"), False).to_numpy()
    width = np.where(in_ns & (figure > 0) & (figure < _LONGEST), figure, 0.0)
    return np.rint(width).astype(np.int64)


def _plain(batch: Batch) -> pa.Table:
    """The columns that are needed, decoded; those that kernels copy only if the batch has them."""
    names = [*_COLUMNS, *(name for name in _KERNEL if batch.has(name) or name == "args")]
    columns = {name: decoded(batch.args_text() if name == "args" else batch.column(name)) for name in names}
    return pa.table(columns)


def _batch(columns: dict[str, Any], rows: int) -> Batch:
    """Synthetic events, without columns that are all null."""
    made = {}
    for name, column in columns.items():
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if array.null_count < rows:
            is_column = name in arrow_schema("events").names
            made[name] = array.cast(arrow_schema("events").field(name).type) if is_column else array
    synthetic = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["synthetic"]))
    return Batch("events", pa.RecordBatch.from_pydict(made | {"timing": synthetic}))


def _repeated(rows: pa.Table, of: Int64, counter: Bools) -> Bools:
    """Counters that repeat an earlier one of the same kernel: pages show some metrics in two sections."""
    twice = np.zeros(len(rows), np.bool_)
    which = np.flatnonzero(counter)
    if len(which):
        part = rows.take(pa.array(which))
        columns = [part[name].combine_chunks() for name in ("metric", "unit", "value")]
        first, _ = distinct_rows([pa.array(of[which]), *columns], len(which))
        twice[which] = True
        twice[which[first]] = False
    return twice


def _arguments(rows: pa.Table, of: Int64, heads: pa.Table) -> dict[str, pa.Array]:
    """The arguments of the kernels: a column for each metric, a list of the notes, the ranges around."""
    cells: dict[str, list[Any]] = {}
    notes: list[list[Any]] = [[] for _ in range(len(heads))]
    columns = (rows[name].to_pylist() for name in ("kind", "name", "metric", "value", "args"))
    for kernel, (kind, name, metric, value, args) in zip(of.tolist(), zip(*columns, strict=True), strict=True):
        if kernel < 0:  # a launch that was yielded before
            continue
        extra = load_object(args)
        if kind == "note":
            notes[kernel].append({"text": name, **extra} if extra else name)
            continue
        key = unique_name(metric, partial(_is_set, cells, kernel), " #")
        if value is None:
            text = next(iter(extra.values())) if len(extra) == 1 else extra
        cells.setdefault(key, [None] * len(heads))[kernel] = text if value is None else value
    made = {f"args.{key}": _typed(values) for key, values in cells.items()}
    if any(notes):
        made["args.notes"] = pa.array([dump_json(given).encode() if given else None for given in notes], pa.binary())
    scopes = [dump_json(scope).encode() if scope else None for scope in heads["scope"].to_pylist()]
    if any(scopes):
        made["args.scope"] = pa.array(scopes, pa.binary())
    return made


def _is_set(columns: dict[str, list[Any]], row: int, name: str) -> bool:
    """Whether a column has a value in that row."""
    return name in columns and columns[name][row] is not None


def _typed(values: list[Any]) -> pa.Array:
    """A column of numbers (integers if all are whole), of texts, or of JSON for anything else."""
    given = [value for value in values if value is not None]
    if all(isinstance(value, float) for value in given):
        if all(value == value // 1 and abs(value) < 2**53 for value in given):
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        return pa.array(values, pa.float64())
    if all(isinstance(value, str) for value in given):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array([None if value is None else dump_json(value).encode() for value in values], pa.binary())
