"""The stage `clock`: moves the times of devices whose clocks are apart from the host's (`--repair-clock`).

    call   cudaLaunchKernel  ts 100 us, correlation 71
    kernel gemm              ts  85 us, correlation 71         device 0 moves by 15 us at least

All rows on the timeline of a device move: work, annotations, counters, ends of arrows; durations stay as they are.
What the host measures stays: calls, synchronisations, allocations. Nothing moves where the check
`cause_after_effect` of `ktrace.analysis.questions.checks` doesn't fail.

The shift is the least one by which no work begins before its call. More would do, too, as long as no work ends after a
call that waited for it returned: both bounds are in `Report.clocks`. They are known when all rows have come; until
then these wait in memory, above a limit in a temporary folder.

    need = begin of the call - begin of the work        above 0: the work seems to begin before its call

             x                      the shift is a constant, the greatest need, or a line above all needs where
    ___x_____________x__ shift      these drift by far more than they scatter
     x    x x    x  x               need

A shift that falls would move work into the work before it. It falls while the device is idle, and by no more than that:

    busy   [ a ][ b ]      [ c ]         by   20 20 17
    moved      [ a ][ b ]     [ c ]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64, Structured
from ktrace.model.batch import DEVICE_KINDS, HOST_KINDS, Batch
from ktrace.model.json_text import dump_json
from ktrace.model.masks import NameTest, each_source, rows_where, truth, words_in
from ktrace.model.row_builder import to_batch
from ktrace.report import MOVED_CLOCKS, Report
from ktrace.stages.align.moves import PART, TOLERANCE, Move
from ktrace.stages.launch_tables import is_sampled
from ktrace.store import SPILL_BYTES, BatchSpool, Runs, Spill
from ktrace.store.events import LIMIT, values
from ktrace.store.launches import Correlated, find_launches, linked
from ktrace.store.vocabulary import Interner, RowKeys
from ktrace.tables import time_text

#: Calls that return when their device, or a stream, has done all that was launched.
_WAITS = re.compile(r"(Device|Ctx|Context|Stream)_?Synchronize", re.I)
_STREAM = re.compile(r"Stream_?Synchronize", re.I)

#: The columns that tell a device apart, and those that tell work and calls apart.
_DEVICE = ("source", "host", "device")
_PLACE = ("source", "host", "pid", "device", "stream")

#: The columns that this stage needs.
COLUMNS = frozenset(("id", "ts", "dur", "kind", "name", "correlation", "half", "clock", "parent", "timing", "tid"))
COLUMNS |= {*_PLACE, "link", "key", "role", "event"}


def with_repaired_clocks(batches: Iterable[Batch], report: Report) -> Iterator[Batch]:
    """Yields all rows, those of devices whose work begins before its calls at later times.

    Begins and ends must have been paired before. `Report.clocks` has what was found of each device.
    """
    spill = Spill(SPILL_BYTES)
    try:
        stage = _Stage(spill)
        for batch in batches:
            if batch.record == "catalog":
                yield batch
            elif len(batch):
                stage.feed(batch)
        yield from stage.give(report)
    finally:
        spill.close()


class _DeviceShift(NamedTuple):
    """The shift of a device, and how much of the work with a known call begins before it.

    `slack` is how much more it could be shifted until work ends after a call that waited for it; None if nothing waits.
    """

    steps: Steps
    move: Move
    early: int
    of: int
    slack: int | None


class _Stage:
    """Keeps all rows until the source has ended, and what tells of the clocks."""

    def __init__(self, spill: Spill) -> None:
        self._rows, self._records = BatchSpool(spill, "rows"), list[str]()
        times = [("ts", "i8"), ("end", "i8"), ("id", "i8"), ("correlation", "i8"), ("place", "i4")]
        self._work, self._calls = Runs(spill, "work", times), Runs(spill, "calls", times)
        self._waits = Runs(spill, "waits", [("ts", "i8"), ("end", "i8"), ("place", "i4"), ("stream", "?")])
        self._links: dict[str, BatchSpool] = {}
        self._spill = spill
        self._places, self._devices = RowKeys(_PLACE), RowKeys(_DEVICE)
        self._waiting = NameTest(lambda name: _WAITS.search(name) is not None)
        self._of_stream = NameTest(lambda name: _STREAM.search(name) is not None)
        self._taken = 0

    def feed(self, batch: Batch) -> None:
        """Keeps a batch."""
        self._taken += len(batch)
        self._records.append(batch.record)
        self._rows.append(batch.columns)
        if batch.record == "events" and not is_sampled(batch):
            self._take_events(batch)
        elif batch.record == "links" and batch.has("event"):
            launches = words_in(batch.column("link"), ("launch",)) & truth(batch.column("event").is_valid())
            for source, rows in each_source(rows_where(batch, launches)) if launches.any() else ():
                if source not in self._links:
                    self._links[source] = BatchSpool(self._spill, f"links{len(self._links)}")
                self._links[source].append(rows.columns.select(["key", "role", "event"]))

    def _take_events(self, batch: Batch) -> None:
        (ts, _), (dur, lasts), (correlation, _) = (values(batch.columns, name) for name in ("ts", "dur", "correlation"))
        kind = batch.column("kind")
        api, host = (words_in(kind, kinds) for kinds in (("api",), HOST_KINDS))
        work = words_in(kind, DEVICE_KINDS) & lasts & (dur >= 0) & ((ts != 0) | (dur != 0))
        work &= ~words_in(batch.column("timing"), ("synthetic",))
        near = (np.abs(ts) < LIMIT) & (dur < LIMIT)  # later stages leave out the others
        work, calls = work & near, (api | (host & (correlation != 0))) & near
        ids = batch.column("id").to_numpy()
        for runs, rows in ((self._work, np.flatnonzero(work)), (self._calls, np.flatnonzero(calls))):
            if len(rows):
                end = (ts + np.maximum(dur, 0))[rows]
                place = self._places.number(batch, rows)
                runs.append(ts=ts[rows], end=end, id=ids[rows], correlation=correlation[rows], place=place)
        if not api.any():
            return
        waits = np.flatnonzero(api & near & (dur > 0) & self._waiting(batch.column("name")))
        if len(waits):
            stream = self._of_stream(batch.column("name"))[waits]
            place = self._places.number(batch, waits)
            self._waits.append(ts=ts[waits], end=(ts + dur)[waits], place=place, stream=stream)

    def give(self, report: Report) -> Iterator[Batch]:
        """Yields all rows, moved where a clock is apart, and reports how."""
        devices = self._device_shifts()
        failed = sum(one.early for one in devices.values()) >= PART * sum(one.of for one in devices.values())
        moved = {key: one for key, one in devices.items() if failed and one.early and one.early >= PART * one.of}
        _account(report, devices, moved)
        if moved:
            yield to_batch("catalog", list(_facts(report)))
        for number, record in enumerate(self._records):
            batch = Batch(record, self._rows.get(number))
            yield self._moved(batch, moved) if moved else batch
        ledger = report.stage("clock")
        ledger.taken = ledger.given = self._taken

    def _moved(self, batch: Batch, moved: dict[Any, _DeviceShift]) -> Batch:
        """The batch with the rows of these devices at their new times."""
        if batch.record == "summaries" or is_sampled(batch):
            return batch
        rows = np.flatnonzero(_on_device(batch))
        if not len(rows):
            return batch
        number = self._devices.number(batch, rows)
        ts, has = (column.copy() for column in values(batch.columns, "ts"))
        for place, key in enumerate(self._devices):
            if key in moved:
                on_device = rows[(number == place) & has[rows]]
                ts[on_device] += moved[key].steps.shift_at(ts[on_device])
        place = batch.columns.schema.get_field_index("ts")
        return Batch(
            batch.record, batch.columns.set_column(place, "ts", pa.array(ts, mask=None if has.all() else ~has))
        )

    def _device_shifts(self) -> dict[Any, _DeviceShift]:
        """The shift of each device with work whose calls are known, by its key."""
        work, calls = self._work.rows, self._calls.rows
        places = self._places.all()
        keys = [tuple(one[name] for name in _DEVICE) for one in places]
        call = self._launches(work, calls, places)
        slack = self._slack(work, calls, call, places)
        number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        device = np.array([number[key] for key in keys], np.int32)[work["place"]]
        devices = {}
        for key, place in number.items():
            on_device = np.flatnonzero(device == place)
            launched = on_device[call[on_device] >= 0]
            if len(launched):
                begins = work["ts"][launched]
                need = calls["ts"][call[launched]] - begins
                early = need > TOLERANCE
                on_device = on_device[np.argsort(work["ts"][on_device], kind="stable")]
                move = move_of(begins, need)
                steps = steps_of(move, work["ts"][on_device], work["end"][on_device])
                left = (slack[launched] - steps.shift_at(begins))[slack[launched] < _NEVER]
                least = int(left.min()) if len(left) else None
                devices[key] = _DeviceShift(steps, move, int(early.sum()), len(launched), least)
        return devices

    def _launches(self, work: Structured, calls: Structured, places: list[dict[str, Any]]) -> Int64:
        """The index of the call of each piece of work, -1 where it isn't known."""
        process, machine, has_process = _processes(places)

        def correlated(rows: Structured) -> Correlated:
            place = rows["place"]
            return Correlated(
                np.ascontiguousarray(rows["correlation"]), process[place], machine[place], has_process[place], place
            )

        def first_and_longest() -> tuple[Int64, ...]:
            return -calls["end"], calls["ts"]

        call = find_launches(correlated(work), correlated(calls), first_and_longest, lambda: work["ts"])
        source = np.array([one["source"] for one in places])
        for name, links in self._links.items():
            without_id = np.flatnonzero((source[work["place"]] == name) & (work["correlation"] == 0))
            theirs = np.flatnonzero(source[calls["place"]] == name)
            at = linked([links.get(part) for part in range(len(links))], work["id"][without_id], calls["id"][theirs])
            call[without_id[at >= 0]] = theirs[at[at >= 0]]
        return call

    def _slack(self, work: Structured, calls: Structured, call: Int64, places: list[dict[str, Any]]) -> Int64:
        """How much later each piece of work could end, before the first call that waited for it returned.

        A call waits for the device of its thread, which is known where its process uses one device, and for a stream
        where it uses one stream.
        """
        slack = np.full(len(work), _NEVER, np.int64)
        process, _, _ = _processes(places)
        launched = np.flatnonzero(call >= 0)
        of_call = process[calls["place"][call[launched]]]
        for number in np.unique(process[self._waits.rows["place"]]).tolist():
            of_thread = launched[of_call == number]
            used = [places[place] for place in np.unique(work["place"][of_thread]).tolist()]
            if len({one["device"] for one in used}) != 1:
                continue
            waits = self._waits.rows[process[self._waits.rows["place"]] == number]
            if len({one["stream"] for one in used}) != 1:
                waits = waits[~waits["stream"]]
            waits = waits[np.argsort(waits["ts"], kind="stable")]
            at = np.searchsorted(waits["ts"], calls["end"][call[of_thread]], "left")
            there = at < len(waits)
            slack[of_thread[there]] = waits["end"][at[there]] - work["end"][of_thread[there]]
        return slack


#: More than any slack, in ns.
_NEVER = np.iinfo(np.int64).max


def _processes(places: list[dict[str, Any]]) -> tuple[Any, Any, Any]:
    """The numbers of the process and the machine of each place, and whether the process is known."""
    numbers = Interner()
    keys = [(one["source"], one["host"], one["pid"]) for one in places]
    process = [numbers[key] for key in keys]
    machine = [numbers[key[:2]] for key in keys]
    has_process = [key[2] is not None for key in keys]
    return np.array(process, np.int32), np.array(machine, np.int32), np.array(has_process, np.bool_)


def _on_device(batch: Batch) -> Bools:
    """Which rows are on the timeline of a device, by its clock: those of the host have a thread, or are calls."""
    placed = truth(batch.column("device").is_valid()) & ~truth(batch.column("tid").is_valid())
    if batch.record == "links":
        return placed
    host = words_in(batch.column("kind"), (*HOST_KINDS, "sync", "alloc"))
    return words_in(batch.column("kind"), DEVICE_KINDS) | (placed & ~host)


def _account(report: Report, devices: dict[Any, _DeviceShift], moved: dict[Any, _DeviceShift]) -> None:
    """Reports what is known of the clock of each device, and which were moved."""
    for key, one in devices.items():
        entry: dict[str, Any] = {"source": key[0], "device": key[2], "early": one.early, "of": one.of}
        label = f"{key[0]}, device {key[2]}" if key[2] is not None else str(key[0])
        if key in moved:
            entry |= {"moved": True, "offset_ns": int(one.steps.by.min()), "most_ns": int(one.steps.by.max())}
            entry |= {"drift_ppm": one.move.rate * 1e6 if one.move.rate else None, "slack_ns": one.slack}
            report.issue("clock-moved", label, _shift_in_words(one), 0)
        else:
            entry |= {"moved": False}
            report.issue("clock-kept", label, f"{one.early:,} of {one.of:,} begin more than 1 us before their calls", 0)
        report.clocks.append(entry)
    if not devices:
        report.issue("clock-kept", "all devices", "no work has a known call", 0)


def _facts(report: Report) -> Iterator[dict[str, Any]]:
    """The rows of the catalog that say of each source what was moved."""
    for source in dict.fromkeys(one["source"] for one in report.clocks if one["moved"]):
        of_source = [one for one in report.clocks if one["moved"] and one["source"] == source]
        kept = [{name: value for name, value in one.items() if name not in ("source", "moved")} for one in of_source]
        yield {"entity": "source", "source": source, "id": 0, "facts": dump_json({MOVED_CLOCKS: kept})}


def _shift_in_words(one: _DeviceShift) -> str:
    """The shift of a device in words, with its bounds."""
    least, most = int(one.steps.by.min()), int(one.steps.by.max())
    by = (
        time_text(least)
        if not one.move.rate
        else f"{time_text(least)} to {time_text(most)}, {one.move.rate * 1e6:+.3f} ppm"
    )
    bound = "nothing bounds it above"
    if one.slack is not None:
        bound = f"at most {time_text(one.slack)} more, by waits" if one.slack >= 0 else "but then work outlasts waits"
    return f"by {by}, the least for {one.early:,} of {one.of:,}; {bound}"


#: The parts of the time whose greatest need makes the line, and those that tell how much it scatters.
_FINE, _COARSE = 1024, 16

#: Drift is told from scatter by so many pieces of work, so many times as much of it and so many ns more.
_LEAST, _TIMES, _MORE = 16, 4, 1_000

#: No clock drifts more than this (1,000 ppm).
_MOST_DRIFT = 1e-3


class Steps(NamedTuple):
    """The shift of a device: `by` so many ns from each time of `at` on, which rise; the first one also before."""

    at: Int64
    by: Int64

    def shift_at(self, ts: Int64) -> Int64:
        """The shift at each time, in ns."""
        return self.by[np.maximum(np.searchsorted(self.at, ts, "right") - 1, 0)]


def move_of(begin: Int64, need: Int64) -> Move:
    """The least move, a constant or a line, that is nowhere below the needs of work with these begins, in ns."""
    line = _line(begin, need)
    if line is None:
        return Move(int(need.max()))
    return Move(int((need - line.times(begin) + begin).max()), line.rate, line.since)


def _line(begin: Int64, need: Int64) -> Move | None:
    """The slope of the needs; None where they don't drift."""
    since, length = int(begin.min()), int(begin.max() - begin.min())
    if len(begin) < _LEAST or not length:
        return None
    base = int(need.max())
    at, most = (begin - since).astype(np.float64), (need - base).astype(np.float64)
    top = _hull(*_greatest(at, most, length, _FINE))
    middle = float(at.mean())
    place = min(max(int(np.searchsorted(top[0], middle)), 1), len(top[0]) - 1)
    if not place:
        return None
    rate = float((top[1][place] - top[1][place - 1]) / (top[0][place] - top[0][place - 1]))
    coarse = _greatest(at, most, length, _COARSE)
    below = top[1][place] + rate * (coarse[0] - top[0][place]) - coarse[1]
    drift = abs(rate) * length
    if abs(rate) > _MOST_DRIFT or len(below) < _COARSE // 2 or drift <= _TIMES * float(np.median(below)) + _MORE:
        return None
    return Move(0, rate, since)


def _greatest(at: np.ndarray, most: np.ndarray, length: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """The point with the greatest need in each part of the time that has any."""
    part = np.minimum((at * (parts / length)).astype(np.int64), parts - 1)
    order = np.lexsort((at, most, part))
    last = np.flatnonzero(np.append(part[order][1:] != part[order][:-1], True))
    return at[order[last]], most[order[last]]


def _hull(at: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the least concave line above the points, whose times rise."""
    corners: list[int] = []
    for now in range(len(at)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (most[b] - most[a]) * (at[now] - at[a]) > (most[now] - most[a]) * (at[b] - at[a]):
                break
            corners.pop()
        corners.append(now)
    return at[corners], most[corners]


def steps_of(move: Move, begin: Int64, end: Int64) -> Steps:
    """The shift of a device whose work, in the order of its begins, begins and ends at these times, in ns."""
    if not move.rate:
        return Steps(begin[:1], np.array([move.offset], np.int64))
    by = move.times(begin) - begin
    reached = np.maximum.accumulate(end)
    idle = np.zeros(len(begin), np.int64)
    np.cumsum(np.maximum(begin[1:] - reached[:-1], 0), out=idle[1:])
    by = np.maximum.accumulate(by + idle) - idle
    changes = np.flatnonzero(np.append(True, by[1:] != by[:-1]))
    return Steps(begin[changes], by[changes])
