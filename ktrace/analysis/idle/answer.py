"""Why devices are idle, as figures. All times are ns.

IdleAnswer
  devices   DeviceIdle("device 0", idle 131,005, causes [IdleCause("host late", 98,210, gaps 9, host [...]), ...])
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ktrace.analysis.work.gaps import CAUSES, NOTES
from ktrace.tables.figures import Cell, Column, Table, percent
from ktrace.tables.figures import brief as short

#: The units of columns.
_UNITS = {"time": "ns", "average": "ns", "longest": "ns", "of idle": "%", "of span": "%", "gaps": "count"}

#: What the brief form of a table leaves out if it has a column for the device.
_WIDE = {"idle": ("average",), "idle host": ("longest",), "idle queued": ("longest",)}


@dataclass(frozen=True)
class HostSpan:
    """What the host did during the gaps of one cause.

    `name` is that of the innermost call, operator or range on the launching thread, `kind` is api, op or range. Outside
    of all of them, and after the launching call has returned, `kind` is "" and `name` a phrase that says so. `gaps` are
    those in which it occurs, `longest` is its longest time in one of them.
    """

    name: str
    kind: str
    time: int
    gaps: int
    longest: int


@dataclass(frozen=True)
class QueuedWork:
    """Work that was queued during gaps, and began after them: its name, and the name of its call, if that is known."""

    name: str
    launched_by: str | None
    time: int
    gaps: int
    longest: int


@dataclass(frozen=True)
class IdleCause:
    """The gaps of a device with one cause, a key of `ktrace.analysis.work.gaps.CAUSES`.

    `host` is how the host spent the time, heaviest first; it adds up to `time`. It is empty for causes that the host
    doesn't decide. `queued` is the work that waited, heaviest first, if the cause is "dependency"; it adds up to `time`
    as well.
    """

    cause: str
    time: int
    gaps: int
    longest: int
    host: tuple[HostSpan, ...] = ()
    queued: tuple[QueuedWork, ...] = ()


@dataclass(frozen=True)
class DeviceIdle:
    """Why a device was idle between its first and its last work, `span` ns.

    `causes` are the heaviest first; they add up to `idle`, which is that of `DeviceUse`. `latency` is the median time
    in ns from the return of a call to its work, if the device was idle then, of so many `launches`; None if these are
    too few to tell.
    """

    label: str
    source: str
    device: int | None
    span: int
    idle: int
    causes: tuple[IdleCause, ...]
    latency: int | None = None
    launches: int = 0


@dataclass
class IdleAnswer:
    """Why the devices of a trace are idle."""

    devices: list[DeviceIdle] = field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The tables of causes, of what the host did, and of queued work, with at most `top` rows of each cause."""
        causes = [(one, cause) for one in self.devices for cause in one.causes]
        notes = [] if causes else ["No device is idle between its first and its last work."]
        if any(cause.cause == "unknown" for _, cause in causes):
            notes.append(
                "A cause is unknown where the work after the gap has no known call, or nothing tells why it began late."
            )
        there = {cause.cause for _, cause in causes}
        notes += [note for cause, note in NOTES.items() if list(CAUSES)[cause] in there]
        if any(cause.cause in ("dependency", "launch overhead") for _, cause in causes):
            notes.append(self._latency())
        title = "why devices are idle" if len(self.devices) > 1 else f"why {self.devices[0].label} is idle"
        names: tuple[str, ...] = ("device", "cause", "time", "of idle", "of span", "gaps", "average", "longest")
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, cause.cause, cause.time, percent(cause.time, one.idle), percent(cause.time, one.span)),
                *(cause.gaps, cause.time / cause.gaps, cause.longest),
            )
            for one, cause in causes
        ]
        tables = [self._table("idle", title, names, rows, brief, notes)]
        names = ("device", "cause", "the host was in", "kind", "time", "of idle", "gaps", "longest")
        rows = [
            (
                one.label,
                cause.cause,
                span.name,
                span.kind,
                span.time,
                percent(span.time, one.idle),
                span.gaps,
                span.longest,
            )
            for one, cause in causes
            for span in cause.host[:top]
        ]
        more = sum(len(cause.host) for _, cause in causes) - len(rows)
        tables.append(self._table("idle host", "what the host did meanwhile", names, rows, brief, [], more))
        names = ("device", "work", "launched by", "time", "of idle", "gaps", "longest")
        rows = [
            (one.label, work.name, work.launched_by, work.time, percent(work.time, one.idle), work.gaps, work.longest)
            for one, cause in causes
            for work in cause.queued[:top]
        ]
        more = sum(len(cause.queued) for _, cause in causes) - len(rows)
        tables.append(self._table("idle queued", "what was queued, and waited", names, rows, brief, [], more))
        return [table for table in tables if table.rows or table.name == "idle"]

    def _latency(self) -> str:
        """What the launch of work is taken to need, and where from."""
        known = sorted(one.latency for one in self.devices if one.latency is not None)
        if len(known) < len(self.devices):
            return "Launch latency: 10 us, assumed; too few launches on an idle device."
        times = " to ".join(short(time) for time in dict.fromkeys((known[0], known[-1])))
        return (
            f"Launch latency: {times}, the median of {sum(one.launches for one in self.devices):,} on an idle device."
        )

    def _table(
        self,
        name: str,
        title: str,
        names: tuple[str, ...],
        rows: list[tuple[Cell, ...]],
        brief: bool,
        notes: list[str],
        more: int = 0,
    ) -> Table:
        """A table of these rows; the brief form has the columns that fit 80 characters."""
        several = len(self.devices) > 1
        dropped = ("kind", *(_WIDE[name] if several else ("device",))) if brief else ()
        kept = [place for place, column in enumerate(names) if column not in dropped]
        columns = tuple(Column(names[place], _UNITS.get(names[place], "")) for place in kept)
        return Table(name, title, columns, [tuple(row[place] for place in kept) for row in rows], notes, more)
