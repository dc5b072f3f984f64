"""Queries of `--exportTimes` as events: the call, the copies, the computation.

    startEnqMs .. endEnqMs            the call that enqueues the query           api "enqueue"
    startH2dMs .. endH2dMs            the copy of its inputs (2019: startInMs)   memcpy "H2D"
    startComputeMs .. endComputeMs    its kernels                                graph "GPU compute"
    startD2hMs .. endD2hMs            the copy of its outputs (2019: startOutMs) memcpy "D2H"

Times are ms since the first query was enqueued. trtexec prints six digits: after one second a begin is exact to
10 us, while durations (`computeMs`) remain exact. So a begin that would be inside the previous slice, by less than
these digits can show, is set to that slice's end.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.kit.text.json_items import plain_value
from ktrace.kit.text.numbers import to_ns
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_LIMIT = 1 << 62


class _Phase(NamedTuple):
    """A part of a query: the keys of its begin, end and duration, and how it is shown."""

    start: str
    end: str
    length: str
    kind: str
    name: str
    copy_kind: str | None = None


_PHASES = (
    _Phase("startEnqMs", "endEnqMs", "", "api", "enqueue"),
    _Phase("startH2dMs", "endH2dMs", "h2dMs", "memcpy", "H2D", "HtoD"),
    _Phase("startInMs", "endInMs", "inMs", "memcpy", "H2D", "HtoD"),
    _Phase("startComputeMs", "endComputeMs", "computeMs", "graph", "GPU compute"),
    _Phase("startD2hMs", "endD2hMs", "d2hMs", "memcpy", "D2H", "DtoH"),
    _Phase("startOutMs", "endOutMs", "outMs", "memcpy", "D2H", "DtoH"),
)
_KEYS = frozenset(key for phase in _PHASES for key in phase[:3])


class _Slice(NamedTuple):
    phase: _Phase
    ts: int
    dur: int
    args: dict[str, Any]


class _Bad(Exception):
    """Raised for a query that can't be used; contains the kind of issue and its detail."""


class Queries:
    """Adds the events of queries. `restart` begins another list of them."""

    def __init__(self, rows: RowBuilder, report: Report) -> None:
        self._rows = rows
        self._report = report
        self._known = False
        self._correlation = 0
        self._ends: dict[str, int] = {}

    def restart(self) -> None:
        """Forgets where the slices of the list before ended."""
        self._ends = {}

    def add(self, where: str, query: dict[str, Any]) -> bool:
        """Adds a query or reports why it can't be read. Always True: the query is accounted for."""
        try:
            slices = [found for phase in _PHASES if (found := self._slice(phase, query, where))]
            if not any(found.phase.name == "GPU compute" for found in slices):
                raise _Bad("bad-record", "no begin or no duration of the computation")
        except _Bad as bad:
            kind, detail = bad.args
            self._report.issue(kind, where, detail)
            return True
        if not self._known:
            self._rows.fact("clock", facts={"kind": "session"})
            self._rows.fact("device", device=0, facts={"api": "cuda", "vendor": "NVIDIA"})
            self._known = True
        self._correlation += 1
        for found in slices:
            self._event(found, query)
        self._report.used()
        return True

    def _event(self, found: _Slice, query: dict[str, Any]) -> None:
        phase, args = found.phase, dict(found.args)
        place: dict[str, Any] = {"track": phase.name, "copy_kind": phase.copy_kind}
        if phase.kind != "api":
            place["device"] = 0
        if phase.kind != "memcpy":
            place["correlation"] = self._correlation
        if phase.kind == "graph":
            others = {key: value for key, value in query.items() if key not in _KEYS}
            args |= {key: plain_value(value) for key, value in others.items()}
        ts = found.ts
        limit = self._ends.get(phase.name, ts)
        timing = "measured"
        if ts < limit <= ts + _step(query[phase.start]):
            args[phase.start] = float(query[phase.start])
            ts, timing = limit, "derived"
        self._ends[phase.name] = ts + found.dur
        self._rows.event(phase.kind, phase.name, ts=ts, dur=found.dur, timing=timing, args=args, **place)

    def _slice(self, phase: _Phase, query: dict[str, Any], where: str) -> _Slice | None:
        """The slice of a phase; None if the query doesn't have it or nothing was copied. Raises _Bad."""
        if query.get(phase.start) is None:
            return None
        begin, exact = _ns(query, phase.start)
        args: dict[str, Any] = {}
        if phase.length in query:
            length, whole = _ns(query, phase.length)
            if not whole:
                args[phase.length] = float(query[phase.length])
        elif query.get(phase.end) is not None:
            end, whole = _ns(query, phase.end)
            length = end - begin
        else:
            return None
        if length < 0:
            raise _Bad("negative-duration", f"{phase.name}: {length} ns")
        if phase.kind == "memcpy" and not length:
            return None
        if not (exact and whole):
            self._report.issue("rounded", where)
            if not exact:
                args[phase.start] = float(query[phase.start])
        return _Slice(phase, begin, length, args)


def _ns(query: dict[str, Any], key: str) -> tuple[int, bool]:
    value = query[key]
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise _Bad("bad-record", f"{key} isn't a number")
    try:
        time, exact = to_ns(Decimal(value), "ms")
    except ValueError:
        raise _Bad("time-range", f"{key}: {value}"[:80]) from None
    if abs(time) >= _LIMIT:
        raise _Bad("time-range", f"{key}: {value}"[:80])
    return time, exact


def _step(value: Any) -> int:
    """The last of the six digits of a number of ms, in ns."""
    place = Decimal(value).adjusted() + 1
    return int(10**place) if place >= 0 else 1
