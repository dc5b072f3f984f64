"""What the rows of each table become.

metal-gpu-intervals                            kernel, memcpy for blits; range for rows inside others (event-depth > 0)
metal-application-command-buffer-submissions   api: from the creation of a command buffer to its commit
metal-application-encoders-list                op: the encoding of an encoder; its label names the GPU's rows
metal-command-buffer-completed                 instant
metal-driver-intervals, metal-gpu-state-intervals, gpu-performance-state-intervals,
metal-shader-profiler-intervals                range
gpu-counter-value                              counter, with its name from gpu-counter-info
any other table with a time                    range if it has a duration, else a sample of a stack, or an instant
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.stacks import Stacks
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .recording import Gpu, mapped, process_number, process_of_thread, texts, thread
from .rows import Schema

#: Engineering types of times, and what the time of a row is called in most tables.
_TIMES = frozenset({"start-time", "event-time", "sample-time"})
_OF_TIME = frozenset({"start", "timestamp", "time", "sample-time"})

#: Columns that name a row of any table, the best first, and those with a stack.
_NAMES = (
    *("name", "label", "event-label", "tool-name", "syscall", "hang-type", "interval-type", "state", "transition"),
    *("fetch-entity", "relationship", "description", "message", "plot-label", "event", "task-description"),
)
_STACKS = ("stack", "backtrace", "cause-backtrace")

#: Tables of samples of what threads do.
_SAMPLED = frozenset({"time-profile", "time-sample", "cpu-profile", "counters-profile"})


class Tables:
    """Turns the blocks of one input into batches. Devices, streams, labels and stacks are those of all its files."""

    def __init__(self, conversion: Conversion, gpu: Gpu, stacks: Stacks) -> None:
        self._conversion = conversion
        self._stacks = stacks
        self._batches = BatchBuilder(conversion)
        self._gpu = gpu
        self._readers: dict[str, Callable[[Block], Batch | None]] = {
            "metal-gpu-intervals": self._intervals,
            "metal-application-command-buffer-submissions": self._submissions,
            "metal-application-encoders-list": self._encoders,
            "metal-command-buffer-completed": self._completions,
            "metal-driver-intervals": self._driver,
            "metal-gpu-state-intervals": self._states,
            "gpu-performance-state-intervals": self._performance,
            "metal-shader-profiler-intervals": self._shaders,
            "gpu-counter-info": self._counter_names,
            "gpu-counter-value": self._counters,
        }

    def reads(self, table: Schema) -> bool:
        """Whether rows of a table have a place in the model: those of the GPU, and all that have a time."""
        return table.name in self._readers or bool({"start", "timestamp"} & {*table.columns})

    def known(self, table: Schema) -> Schema:
        """The table, the time and the duration of which are called `start` (`timestamp` without one) and `duration`.

        They are found by their types, since each table names them otherwise.
        """
        if table.name in self._readers or len(table.types) < len(table.columns):
            return table
        times = [place for place, kind in enumerate(table.types) if kind in _TIMES]
        lengths = [
            place
            for place, (kind, name) in enumerate(zip(table.types, table.columns, strict=True))
            if kind == "duration" and "duration" in name
        ]
        if not times:
            return table
        columns = list(table.columns)
        time = min(times, key=lambda place: (columns[place] not in _OF_TIME, place))
        length = min(lengths, key=lambda place: (columns[place] != "duration", place)) if lengths else None
        for place, name in ((time, "timestamp" if length is None else "start"), (length, "duration")):
            if place is not None and columns[place] != name:
                columns = [f"{column} of {table.name}" if column == name else column for column in columns]
                columns[place] = name
        return table._replace(columns=tuple(columns))

    def read(self, table: str, block: Block) -> Iterator[Batch]:
        """Yields the rows of a block, which has passed as many records to the report."""
        if table == "gpu-counter-info":
            self._counter_names(block)
            return
        start = "timestamp" if block.get("start") is None else "start"
        sound = timed(block, self._conversion, start, dur="duration" if start == "start" else None)
        for first in range(0, len(sound), self._conversion.batch_rows):
            part = sound.slice(first, self._conversion.batch_rows)
            batch = self._readers[table](part) if table in self._readers else self._other(table, part)
            if batch is not None and len(batch):
                yield batch

    def _intervals(self, block: Block) -> Batch | None:
        block = self._gpu.first_time(block, self._conversion.report)
        rows = len(block)
        if not rows:
            return None
        process = block.take("process")
        labels = block.take("event-label")
        encoders = block.take("encoder-id")
        names = self._gpu.names(labels, texts(process, rows), encoders, rows)
        depth = block.get("event-depth")
        nested = pc.greater(pc.fill_null(depth, 0), 0) if depth is not None else constant_mask(rows)
        nested = pc.or_(nested, _matches(block.get("state"), "^(?:Idle|Inactive|Off)$", rows))
        channel = block.take("channel-name")
        blit = pc.or_(_matches(names, r"^(?:.*:)?Blit Command \d+$"), _matches(channel, "^Blit", rows))
        kinds = pc.if_else(nested, "range", pc.if_else(blit, "memcpy", "kernel"))
        return self._batches.events(
            block,
            self._batches.ids(rows),
            kind=kinds,
            name=names,
            ts=block.take("start"),
            dur=block.take("duration"),
            pid=self._gpu.pids(process, rows),
            device=self._gpu.devices(block.take("gpu"), rows),
            stream=self._gpu.streams(channel, rows),
            correlation=nonzero(block.take("cmdbuffer-id")),
            external_id=nonzero(encoders),
            bytes=nonzero(block.take("bytes")),
        )

    def _submissions(self, block: Block) -> Batch:
        rows = len(block)
        return self._batches.events(
            block,
            self._batches.ids(rows),
            kind="api",
            name=_named(block.take("event-type"), "CommandBufferSubmission", rows),
            ts=block.take("start"),
            dur=block.take("duration"),
            correlation=nonzero(block.take("cmdbuffer-id")),
            **self._place(block),
        )

    def _encoders(self, block: Block) -> Batch:
        rows = len(block)
        encoders = nonzero(block.take("encoder-id"))
        label = block.take("encoder-label")
        buffers = block.get("cmdbuffer-label")
        self._gpu.label(encoders, texts(label, rows), texts(buffers, rows))
        return self._batches.events(
            block,
            self._batches.ids(rows),
            kind="op",
            name=_named(label, "encoder", rows),
            ts=block.take("start"),
            dur=block.take("duration"),
            external_id=encoders,
            **self._place(block),
        )

    def _completions(self, block: Block) -> Batch:
        rows = len(block)
        block.drop("duration")
        return self._batches.events(
            block,
            self._batches.ids(rows),
            kind="instant",
            name="CommandBufferCompleted",
            ts=block.take("timestamp"),
            track="Completed command buffers",
        )

    def _driver(self, block: Block) -> Batch:
        rows = len(block)
        block.drop("gpu")
        names = _named(block.take("event-label"), "driver", rows)
        lane = _named(block.take("gpu-driver-name"), "Driver", rows)
        return self._range(block, names, lane, pid=self._gpu.pids(block.take("process"), rows))

    def _states(self, block: Block) -> Batch:
        rows = len(block)
        device = self._gpu.devices(block.take("gpu"), rows)
        return self._range(block, _named(block.take("state"), "state", rows), "GPU state", device=device)

    def _performance(self, block: Block) -> Batch:
        rows = len(block)
        device = self._gpu.devices(block.take("track-label"), rows)
        names = _named(block.take("gpu-performance-state", "state"), "state", rows)
        return self._range(block, names, "GPU performance state", device=device)

    def _shaders(self, block: Block) -> Batch:
        rows = len(block)
        names = _named(block.take("name"), "shader", rows)
        lane = mapped(block.take("channel-name"), rows, lambda name: f"Shaders: {name}", pa.string())
        device = self._gpu.devices(block.take("gpu"), rows)
        pid = self._gpu.pids(block.take("process"), rows)
        return self._range(block, names, _named(lane, "Shaders", rows), device=device, pid=pid)

    def _range(self, block: Block, names: pa.Array, lane: pa.Array | str, **place: pa.Array) -> Batch:
        return self._batches.events(
            block,
            self._batches.ids(len(block)),
            kind="range",
            name=names,
            ts=block.take("start"),
            dur=block.take("duration"),
            track=lane,
            **place,
        )

    def _other(self, table: str, block: Block) -> Batch:
        """The rows of a table of the host: ranges, samples of stacks, or instants, on a track of the table."""
        rows = len(block)
        stacks = next((block.take(name) for name in _STACKS if block.get(name) is not None), None)
        lasts = block.get("duration") is not None
        samples = stacks is not None and not lasts and table in _SAMPLED
        named = None if samples else next((block.take(name) for name in _NAMES if block.get(name) is not None), None)
        top = mapped(stacks, rows, lambda text: text.partition("\n")[0], pa.string())
        threads, own_pids = block.get("thread"), block.take("pid")
        place = self._place(block)
        for texts_of, number in ((own_pids, process_number), (threads, process_of_thread)):
            place["pid"] = pc.coalesce(place["pid"], mapped(texts_of, rows, number, pa.int64()))
        batch = self._batches.events(
            block,
            self._batches.ids(rows),
            kind="range" if lasts else "sample" if samples else "instant",
            name=_named(top if samples else named, table, rows),
            ts=block.take("start" if lasts else "timestamp"),
            dur=block.take("duration") if lasts else None,
            track=table,
            **place,
        )
        keys = mapped(stacks, rows, lambda text: self._stacks.key(tuple(text.split("\n")[::-1])), pa.string())
        names = mapped(threads, rows, lambda text: None if thread(text) is not None else text, pa.string())
        columns = batch.columns
        for name, column in (("args.stack", keys), ("args.thread", names)):
            columns = columns if column.null_count == rows else columns.append_column(name, column)
        return Batch("events", columns)

    def _place(self, block: Block) -> dict[str, pa.Array]:
        """The process and the thread of host rows."""
        rows = len(block)
        threads = block.take("thread")
        pids = self._gpu.pids(block.take("process"), rows)
        tids = mapped(threads, rows, thread, pa.int64())
        self._gpu.threads(texts(threads, rows), tids, pids)
        block.drop("gpu")
        return {"pid": pids, "tid": tids}

    def _counter_names(self, block: Block) -> None:
        rows = len(block)
        ids, names = texts(block.get("counter-id"), rows), texts(block.get("name"), rows)
        units = texts(block.get("type"), rows)
        for number, name, unit in zip(ids, names, units, strict=True):
            if number is not None and name:
                self._gpu.counters[number] = (name, unit)
        self._conversion.report.used(rows, outcome="catalog")

    def _counters(self, block: Block) -> Batch | None:
        ids = block.get("counter-id")
        raw = texts(block.get("value"), len(block))
        values = pa.array([_float(text) for text in raw], pa.float64())
        if values.null_count:
            for row in np.flatnonzero(~present(values)).tolist():
                self._conversion.report.issue("bad-record", block.where(row), f"the value {raw[row]!r}")
            block = block.filter(values.is_valid())
            values, ids = values.drop_null(), block.get("counter-id")
        rows = len(block)
        if not rows:
            return None
        names = mapped(ids, rows, lambda number: self._gpu.counters.get(number, (f"counter {number}",))[0], pa.string())
        block.drop("counter-id", "value", "duration")
        return self._batches.events(
            block,
            self._batches.ids(rows),
            kind="counter",
            name=_named(names, "counter", rows),
            ts=block.take("timestamp"),
            value=values,
            unit=mapped(ids, rows, self._gpu.unit, pa.string()),
            device=pa.repeat(pa.scalar(0, pa.int64()), rows),
        )


def constant_mask(rows: int) -> pa.BooleanArray:
    """A mask that is false everywhere."""
    return pa.array(np.zeros(rows, np.bool_))


def _named(column: pa.Array | None, default: str, rows: int) -> pa.Array:
    """A column of names: the default where there is none."""
    if column is None:
        return constant(default, rows)
    if pa.types.is_dictionary(column.type) and not column.null_count and "" not in column.dictionary.to_pylist():
        return column
    words = column.cast(pa.string())
    return pc.if_else(pc.equal(pc.fill_null(words, ""), ""), default, words)


def _matches(column: pa.Array | None, pattern: str, rows: int = 0) -> pa.BooleanArray:
    """Which texts match a pattern."""
    if column is None:
        return constant_mask(rows)
    return pc.fill_null(pc.match_substring_regex(column.cast(pa.string()), pattern), False)


def _float(text: str | None) -> float | None:
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if np.isfinite(value) else None
