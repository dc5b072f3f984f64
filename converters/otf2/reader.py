"""Reads the events of an OTF2 trace, each of which the library hands out as an object."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import error_text
from ktrace.input.source import Source
from ktrace.kit.rocm.common import copy_kind
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .library import Archive
from .places import Open, Place, Places, plain, word

#: Paradigms whose regions on a CPU are calls of a device's API.
_CALLS = {"CUDA", "HIP", "OPENCL", "OPENACC", "OPENMP_TARGET"}

#: Roles of regions on a stream. Score-P wrote kernels as functions before OTF2 had a role for them; rocprofv3 does.
_WORK = {"KERNEL": "kernel", "FUNCTION": "kernel", "DATA_TRANSFER": "memcpy"}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields regions as they are left, copies, counters and messages; what never ended comes last.

    Raises InputError without the library or the trace's other files, DamagedInput for definitions that can't be read.
    """
    archive = Archive(source, conversion)
    try:
        yield from _Reading(archive, conversion).batches(source.name)
    finally:
        archive.close()


class _Reading:
    """Makes rows of the events of one trace."""

    def __init__(self, archive: Archive, conversion: Conversion) -> None:
        self._archive, self._report, self._rows = archive, conversion.report, RowBuilder(conversion)
        self._unread: Counter[str] = Counter()
        self._messages: defaultdict[tuple[Any, ...], int] = defaultdict(int)
        self._ranks: dict[Any, dict[Any, int]] = {}
        self._metrics: set[Any] = set()
        self._places = Places(archive, self._rows)
        self._ns = self._places.ns

    def batches(self, name: str) -> Iterator[Batch]:
        """Yields the rows of all events in the order of their times."""
        report = self._report
        for batch in self._archive.events():
            report.record(len(batch))
            for location, event in batch:
                self._event(self._places.of[location], event)
                yield from self._rows.ready()
        self._end(name)
        yield from self._rows.rest()

    def _end(self, name: str) -> None:
        """Adds what waits for its end, and reports events that aren't read."""
        for place in self._places.of.values():
            for entered in place.open:
                self._range(place, entered, None)
            for event, ts in place.copies.values():
                self._copy(place, event, ts, None)
            self._report.used(len(place.open) + len(place.copies))
            for message in filter(None, place.receives.values()):
                self._link(*message)
        for kind, count in sorted(self._unread.items()):
            self._report.issue("unread-packet", name, f"{kind} ({count:,})", count)

    def _event(self, place: Place, event: Any) -> None:
        kind = type(event).__name__
        try:
            outcome = _READERS[kind](self, place, event) if kind in _READERS else "unread"
        except (LookupError, ValueError, ArithmeticError, AttributeError, TypeError) as error:
            self._report.issue("bad-record", f"{place.location.name}: {kind} at {event.time}", error_text(error))
            return
        if outcome == "unread":
            self._unread[kind] += 1
        elif outcome in ("end-without-begin", "negative-duration"):
            self._report.issue(outcome, f"{place.location.name}: {kind} at {event.time}")
        elif outcome != "waits":
            self._report.used(outcome=outcome)

    def _args(self, event: Any) -> dict[str, Any]:
        return {one.name: plain(value) for one, value in (event.attributes or {}).items()}

    def _enter(self, place: Place, event: Any) -> str:
        entered = Open(event.region, self._ns(event.time), self._rows.reserve(), self._args(event))
        place.open.append(entered)
        return "waits"

    def _leave(self, place: Place, event: Any) -> str | None:
        """The region that was entered last; regions of a stream may overlap."""
        for index in range(len(place.open) - 1, -1, -1):
            if place.open[index].region is event.region:
                entered = place.open.pop(index)
                entered.args |= self._args(event)
                return self._ended(entered.ts, event, partial(self._range, place, entered))
        return "end-without-begin"

    def _ended(self, ts: int, event: Any, add: Callable[[int], None]) -> str | None:
        """Adds what began at `ts` and ends with this event; two records are used, or left out."""
        dur = self._ns(event.time) - ts
        if dur < 0:
            self._report.issue("negative-duration", f"the start at {ts} ns of what ends at {event.time}")
            return "negative-duration"
        add(dur)
        self._report.used()
        return None

    def _range(self, place: Place, entered: Open, dur: int | None) -> None:
        region, role = entered.region, word(entered.region.region_role)
        paradigm = word(region.paradigm)
        kind = _WORK.get(role, "range") if place.is_stream else "api" if paradigm in _CALLS else "range"
        args = entered.args
        category = args.pop("category", None) or paradigm
        if region.source_file and region.begin_line_number:
            args |= {"$file": region.source_file, "$line": region.begin_line_number}
        way = copy_kind(region.name) if kind == "memcpy" else None
        self._rows.event(
            kind,
            region.name,
            id=entered.id,
            ts=entered.ts,
            dur=dur,
            cat=category,
            comm=entered.comm,
            copy_kind=way,
            args=args,
            **place.columns,
        )

    def _metric(self, place: Place, event: Any) -> None:
        columns, ts = self._scope(event.metric, place), self._ns(event.time)
        for member, value in zip(event.metric.members, event.values, strict=True):
            if member not in self._metrics:
                self._metrics.add(member)
                facts = {"unit": member.unit, "description": member.description, "mode": word(member.metric_mode)}
                self._rows.fact("metric", name=member.name, facts={key: text for key, text in facts.items() if text})
            factor = (2.0 if word(member.base) == "BINARY" else 10.0) ** member.exponent
            unit = member.unit or None
            self._rows.event("counter", member.name, ts=ts, value=value * factor, unit=unit, **columns)

    def _scope(self, metric: Any, place: Place) -> dict[str, Any]:
        """Where a metric belongs: to the location that recorded it, or to what its instance names."""
        scope = getattr(metric, "scope", None)
        if scope is None or scope in self._places.of:
            return self._places.of[scope].columns if scope else place.columns
        if hasattr(scope, "location_group_type"):
            return {"host": self._places.host(scope), "pid": scope._ref}
        return {"host": scope.name if hasattr(scope, "class_name") else place.columns["host"]}

    def _parameter(self, place: Place, event: Any) -> str:
        """A value of the region that was entered last."""
        if not place.open:
            return "unread"
        value = event.string if hasattr(event, "string") else event.value
        place.open[-1].args[event.parameter.name] = value
        return "folded"

    def _collective(self, place: Place, event: Any) -> str:
        """What the region around did."""
        if not place.open:
            return "unread"
        around = place.open[-1]
        around.comm = getattr(event.communicator, "name", None)
        around.args |= {"collective_op": word(event.collective_op), "size_sent": event.size_sent}
        around.args |= {"size_received": event.size_received}
        return "folded"

    def _program(self, place: Place, event: Any) -> str:
        facts: dict[str, Any] = self._args(event)
        if hasattr(event, "program_name"):
            facts["command"] = " ".join([event.program_name or "", *map(str, event.program_arguments)])
        elif event.exit_status != -(1 << 63):  # undefined
            facts["exit_status"] = event.exit_status
        if facts:
            self._rows.fact("process", host=place.columns["host"], pid=place.columns["pid"], facts=facts)
        return "catalog"

    def _flush(self, place: Place, event: Any) -> str | None:
        """The measurement wrote its buffer to the disk."""
        ts, stop = self._ns(event.time), self._ns(event.stop_time)
        if stop < ts:
            return "negative-duration"
        self._rows.event("overhead", "BufferFlush", ts=ts, dur=stop - ts, **place.columns)
        return None

    # Copies: a stream gets from the host, or puts to it.

    def _begin_copy(self, place: Place, event: Any) -> str:
        if not place.is_stream:
            return "unread"
        place.copies[event.win, event.matching_id] = event, self._ns(event.time)
        return "waits"

    def _end_copy(self, place: Place, event: Any) -> str | None:
        begun = place.copies.pop((event.win, event.matching_id), None)
        if begun is None:
            return "end-without-begin" if place.is_stream else "unread"
        return self._ended(begun[1], event, partial(self._copy, place, *begun))

    def _copy(self, place: Place, event: Any, ts: int, dur: int | None) -> None:
        is_get = type(event).__name__ == "RmaGet"
        try:
            to_host = not self._places.of[event.win.location(event.remote)].is_stream
        except (LookupError, AttributeError, TypeError):
            to_host = False
        way = ("HtoD" if is_get else "DtoH") if to_host else None
        args = {"window": event.win.name, "matching_id": event.matching_id} | self._args(event)
        self._rows.event(
            "memcpy", type(event).__name__, ts=ts, dur=dur, bytes=event.bytes, copy_kind=way, args=args, **place.columns
        )

    # Messages: those with the same communicator, ranks and tag arrive in the order of their sends (MPI).

    def _send(self, place: Place, event: Any) -> None:
        self._link(*self._message(place, event, event.receiver, is_send=True))

    def _post(self, place: Place, event: Any) -> str:
        """A receive that gets its message later: the order of posts is that of messages."""
        place.receives.setdefault(event.request_id)
        return "structure"

    def _cancel(self, place: Place, event: Any) -> str:
        place.receives.pop(event.request_id, None)
        return "structure"

    def _receive(self, place: Place, event: Any) -> None:
        receives = place.receives
        receives[getattr(event, "request_id", event)] = self._message(place, event, event.sender, is_send=False)
        while receives and (message := receives[first := next(iter(receives))]):
            del receives[first]
            self._link(*message)

    def _message(self, place: Place, event: Any, other: int, *, is_send: bool) -> tuple[bool, Any, dict[str, Any]]:
        """Whether it is sent, what identifies its ends but for its number, and the columns of this end."""
        rank = self._rank(event.communicator, place)
        ends = (event.communicator._ref, *((rank, other) if is_send else (other, rank)), event.msg_tag)
        name = getattr(event.communicator, "name", None)
        args = {"communicator": name, "tag": event.msg_tag, "bytes": event.msg_length}
        at = {"event": place.open[-1].id} if place.open else {"bind": "enclosing"}
        return is_send, ends, at | {"ts": self._ns(event.time), "args": args} | place.columns

    def _link(self, is_send: bool, ends: tuple[int, ...], columns: dict[str, Any]) -> None:
        self._messages[is_send, ends] += 1
        key = ":".join(map(str, (*ends, self._messages[is_send, ends])))
        self._rows.link("flow", key, "out" if is_send else "in", name="MPI", **columns)

    def _rank(self, comm: Any, place: Place) -> int:
        """The rank of a location's process in a communicator. Raises LookupError where it has none."""
        if comm not in self._ranks:
            self._ranks[comm] = {one.group: rank for rank, one in enumerate(comm.group.members)}
        return self._ranks[comm][place.location.group]


#: What becomes of an event: a reader's answer is None for rows, an outcome, or why there are none.
_READERS: dict[str, Any] = {
    "Enter": _Reading._enter,
    "Leave": _Reading._leave,
    "Metric": _Reading._metric,
    "BufferFlush": _Reading._flush,
    **dict.fromkeys(("ParameterString", "ParameterInt", "ParameterUnsignedInt"), _Reading._parameter),
    "MpiCollectiveBegin": lambda *_: "structure",
    "MpiCollectiveEnd": _Reading._collective,
    **dict.fromkeys(("ProgramBegin", "ProgramEnd"), _Reading._program),
    **dict.fromkeys(("RmaGet", "RmaPut"), _Reading._begin_copy),
    **dict.fromkeys(("RmaOpCompleteBlocking", "RmaOpCompleteNonBlocking"), _Reading._end_copy),
    **dict.fromkeys(("MpiSend", "MpiIsend"), _Reading._send),
    **dict.fromkeys(("MpiRecv", "MpiIrecv"), _Reading._receive),
    "MpiIrecvRequest": _Reading._post,
    "MpiRequestCancelled": _Reading._cancel,
}
