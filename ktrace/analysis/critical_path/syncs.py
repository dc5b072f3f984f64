"""Where the host waits for devices, and where a stream waits for an event of another one.

thread      [ cudaStreamSynchronize        ]        returns when the last work of its stream has ended
stream 7    [ gemm                  ]
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.critical_path.device import Device
from ktrace.analysis.critical_path.threads import Threads
from ktrace.analysis.work.gather import SummaryInput
from ktrace.analysis.work.spans import KINDS, UNKNOWN
from ktrace.model.arrays import Int64
from ktrace.store.joins import positions

#: Calls that return when devices have reached a point: CUDA, HIP, MUSA, ACL, Level Zero, OpenCL, SYCL, Metal.
_CALL = re.compile(
    r"synchronize|clFinish|clWaitForEvents|[up][ir](?:QueueFinish|EventWait|EventsWait)|waitUntilCompleted", re.I
)

#: The words of CUPTI for kinds of synchronisations, as libkineto, nsys and nvvp write them.
_STREAM_WAIT = re.compile(r"stream[ _]*wait", re.I)
_EVENT_SYNC = re.compile(r"event[ _]*sync", re.I)
_STREAM_SYNC = re.compile(r"stream[ _]*sync", re.I)

#: A copy to memory that isn't pinned returns when it has ended, even if its call is asynchronous (CUDA's API
#: synchronization behavior).
_TO_PAGEABLE = re.compile(r"-> ?Pageable", re.I)

#: A stream without work.
_NO_STREAM = -2

_API = KINDS.index("api")


class Sync(NamedTuple):
    """A call that waits for devices: for the work `target`, else for the last on a stream or device (-1: all)."""

    begin: int
    end: int
    target: int
    stream: int
    device: int


class Syncs:
    """The calls of a source that wait for devices, and which work waits for an event."""

    def __init__(self, gathered: SummaryInput, source: str, threads: Threads, device: Device) -> None:
        self._gathered, self._source, self._threads, self._device = gathered, source, threads, device
        self.waiting = self.awaited = np.zeros(0, np.int64)
        self._known: dict[int, tuple[int, int, int]] = {}
        self._read_records()
        self._read_direct_waits()

    def by_thread(self) -> dict[int, list[Sync]]:
        """The waiting calls of each thread, by their end."""
        threads = self._threads
        rows = dict.fromkeys(self._waiting_calls().tolist(), (-1, -1, -1)) | self._copies() | self._known
        found: dict[int, list[Sync]] = {}
        for row, (target, stream, device) in rows.items():
            sync = Sync(int(threads.ts[row]), int(threads.end[row]), target, stream, device)
            if sync.end > sync.begin:
                found.setdefault(int(threads.thread[row]), []).append(sync)
        for calls in found.values():
            calls.sort(key=lambda one: (one.end, -one.begin))
        return found

    def _waiting_calls(self) -> Int64:
        """The calls that wait by their name."""
        waits = np.array([_CALL.search(name) is not None for name in self._gathered.spans.names], np.bool_)
        mine = np.flatnonzero(self._threads.kind == _API)
        return mine[waits[self._threads.names[mine]]]

    def _copies(self) -> dict[int, tuple[int, int, int]]:
        """The calls that return when their own copy has ended."""
        device, names = self._device, self._gathered.spans.names
        copies = np.flatnonzero(device.launched & (device.kind == "memcpy"))
        calls = self._threads.row_of(device.call_id[copies])
        shapes = self._gathered.shapes.all()
        found: dict[int, tuple[int, int, int]] = {}
        for row, copy, shape in zip(calls.tolist(), copies.tolist(), device.shape[copies].tolist(), strict=True):
            if row < 0:
                continue
            name = names[self._threads.names[row]]
            if ("memcpy" in name.lower() and "async" not in name.lower()) or _TO_PAGEABLE.search(shapes[shape]["name"]):
                found[row] = copy, -1, -1
        return found

    def _read_records(self) -> None:
        """Reads the synchronisations that the source recorded."""
        rows, shapes = self._gathered.waits.of(self._source), self._gathered.waits.shapes
        if not len(rows["ts"]):
            return
        threads = self._threads
        call = threads.calls_of(rows["correlation"], rows["ts"], rows["ts"] + rows["dur"])
        places = [shapes[shape] for shape in rows["shape"].tolist()]
        stream = self._streams(places, [one["stream"] for one in places])
        on = [None if one == UNKNOWN else one for one in rows["on_stream"].tolist()]
        record, recorded_on = self._records(rows["id"].tolist())
        awaited_stream = np.where(rows["on_stream"] == UNKNOWN, recorded_on, self._streams(places, on))
        awaited = np.full(len(places), -1, np.int64)
        known = np.flatnonzero(record >= 0)
        awaited[known] = self._device.last_launched(awaited_stream[known], threads.ts[record[known]])
        waits = np.array([_STREAM_WAIT.search(one["name"]) is not None for one in places], np.bool_)
        self._streams_wait(np.flatnonzero(waits), stream, call, rows["ts"], awaited)
        for number in np.flatnonzero(~waits & (call >= 0)).tolist():
            place, row = places[number], int(call[number])
            device = -1 if place["device"] is None else place["device"]
            if _EVENT_SYNC.search(place["name"]):
                if "query" not in self._gathered.spans.names[threads.names[row]].lower():
                    self._known[row] = int(awaited[number]), -1, device
            elif _STREAM_SYNC.search(place["name"]):
                self._known[row] = -1, int(stream[number]) if stream[number] >= 0 else _NO_STREAM, device
            else:
                self._known[row] = -1, -1, device

    def _streams(self, places: list[dict[str, Any]], streams: list[int | None]) -> Int64:
        """The numbers of streams on the devices of some places, -1 where no work ran."""
        found = [
            self._device.stream_of(one["host"], one["pid"], one["device"], stream)
            for one, stream in zip(places, streams, strict=True)
        ]
        return np.array(found, np.int64)

    def _streams_wait(self, rows: Int64, stream: Int64, call: Int64, ts: Int64, awaited: Int64) -> None:
        """The next work that was launched on a stream after it was told to wait for an event."""
        after = np.where(call[rows] >= 0, self._threads.ts[call[rows]], ts[rows])
        waiting = self._device.first_launched(stream[rows], after)
        known = (waiting >= 0) & (awaited[rows] >= 0)
        self.waiting, self.awaited = waiting[known], awaited[rows][known]

    def _records(self, ids: list[int]) -> tuple[Int64, Int64]:
        """The call that recorded the event which each synchronisation waits for, and its stream; -1 if not known."""
        out: dict[str, int] = {}
        into: dict[int, str] = {}
        streams: dict[int, int] = {}
        for link, key, role, event, stream in self._links():
            if event is not None and link == "wait":
                if role == "in":
                    into[event] = key
                elif role == "out":
                    out[key] = event
            if event is not None and stream is not None and role == "out":
                streams[event] = stream
        events = [out.get(into.get(one, ""), -1) for one in ids]
        on = [self._device.only_stream(streams[one]) if one in streams else -1 for one in events]
        return self._threads.row_of(np.array(events, np.int64)), np.array(on, np.int64)

    def _read_direct_waits(self) -> None:
        """Reads the arrows that lead from work to work."""
        ends: dict[str, dict[str, int]] = {"out": {}, "in": {}}
        for link, key, role, event, *_ in self._links():
            if link == "wait" and event is not None and role in ends:
                ends[role][key] = event
        keys = [key for key in ends["in"] if key in ends["out"]]
        order = np.argsort(self._device.id_, kind="stable")
        known = self._device.id_[order]
        into, out = (positions(np.array([ends[role][key] for key in keys], np.int64), known) for role in ("in", "out"))
        both = (into >= 0) & (out >= 0)
        if both.any():
            self.waiting = np.concatenate([self.waiting, order[into[both]]])
            self.awaited = np.concatenate([self.awaited, order[out[both]]])

    def _links(self) -> list[tuple[Any, ...]]:
        """The arrows as rows."""
        names = ("link", "key", "role", "event", "stream")
        rows: list[tuple[Any, ...]] = []
        for batch in self._gathered.waits.links(self._source):
            columns = [
                batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(batch) for name in names
            ]
            rows += [row for row in zip(*columns, strict=True) if row[0] != "fwdbwd"]
        return rows
