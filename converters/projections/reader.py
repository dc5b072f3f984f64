"""Reads the logs of the PEs of a run, one after the other: each record has a type, by which it is read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.errors import InputError
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import HEADER, runs
from .names import Names, whole

_LATEST = (1 << 62) // 1000


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of one PE after the other. Raises InputError for a folder with several runs."""
    prefixes = runs(source.sample().listing or ())
    if len(prefixes) != 1:
        raise InputError(
            f"has {len(prefixes)} runs: {', '.join(sorted(prefixes))}"
            if prefixes
            else "has no file of names with logs",
            path=source.path,
            expected="NAME.sts, NAME.0.log.gz, NAME.1.log.gz, ... of one run",
            remedy="copy the files of a run to a folder of their own",
        )
    ((sts, logs),) = prefixes.items()
    rows, bad = RowBuilder(conversion), BadFiles(conversion.report)
    names = Names()
    yield from bad.left_out(sts, names.read(Lines(file_in(source, sts), conversion, f"{sts}: ")))
    for number, path in logs:
        pe = _Pe(number, names, rows)
        yield from bad.left_out(path, pe.read(Lines(file_in(source, path), conversion, f"{path}: ")))
        pe.end()
    bad.end()
    rows.fact("source", facts={"tool": "Charm++ Projections"} | names.facts)
    rows.fact("clock", facts={"kind": "session", "resolution_ns": 1000})
    yield from rows.rest()


def _time(text: str) -> int:
    """A time in us as ns. Raises OverflowError for one that no row may have."""
    number = whole(text)
    if abs(number) >= _LATEST:
        raise OverflowError(text)
    return 1000 * number


class _Open(NamedTuple):
    """A range that has begun: the id of its row, its start, what is said of it, and readings at its start."""

    id: int
    ts: int
    args: dict[str, Any]
    readings: Sequence[int] = ()


class _Backwards(Exception):
    """A range that ends before it begins."""


class _Pe:
    """What is known of a PE while its log is read. Readers of records return their outcome; None is a row."""

    def __init__(self, number: int, names: Names, rows: RowBuilder) -> None:
        self._names, self._rows = names, rows
        self._place: dict[str, Any] = {"pid": number, "tid": number}
        name = f"PE {number}"
        if names.node_size and number < names.node_size * names.nodes:
            self._place["pid"] = number // names.node_size
        elif names.nodes:
            self._place["pid"] = number - names.node_size * names.nodes
            name = f"communication thread of node {self._place['pid']}"
        rows.fact("thread", name=name, **self._place)
        self._entries: defaultdict[int, list[_Open]] = defaultdict(list)
        self._open: defaultdict[tuple[Any, ...], list[_Open]] = defaultdict(list)

    def read(self, lines: Lines) -> Iterator[Batch]:
        """Yields the rows of the lines."""
        for line in lines:
            if line.text.startswith(HEADER) or not line.text.strip():
                lines.structure()
                continue
            kind, _, rest = line.text.lstrip().partition(" ")
            if reader := _READERS.get(kind):
                self._record(lines, reader, rest)
            elif kind.isdecimal():
                lines.skip("unread-packet", f"record of type {kind[:20]}")
            yield from self._rows.ready()

    def _record(self, lines: Lines, reader: _Reader, rest: str) -> None:
        try:
            outcome = reader(self, rest.split(), rest)
        except OverflowError as error:
            lines.skip("time-range", f"{error} us")
        except _Backwards:
            lines.skip("negative-duration")
        except (ValueError, IndexError):
            lines.skip("bad-record", "a number or a text is missing")
        else:
            if outcome is None:
                lines.used()
            elif outcome == "end-without-begin":
                lines.skip(outcome)
            else:
                lines.became(outcome)

    def end(self) -> None:
        """Adds the ranges that never end."""
        for entry, began in self._entries.items():
            for one in began:
                self._execution(entry, one, None)
        for (kind, name, *_), waiting in self._open.items():
            for one in waiting:
                self._range(kind, name, one, None)
        self._entries.clear()
        self._open.clear()

    def _entry(self, number: int) -> str:
        return self._names.entries.get(number, f"entry {number}")

    def _event(self, kind: str, name: str, ts: int, **columns: Any) -> int:
        return self._rows.event(kind, name, ts=ts, **columns, **self._place)

    def _range(self, kind: str, name: str, one: _Open, dur: int | None) -> None:
        self._event(kind, name, one.ts, id=one.id, dur=dur, args=one.args)

    def _begin(self, *key: Any, ts: int, args: dict[str, Any] | None = None) -> None:
        """Opens a range: its kind, its name, and what else its end repeats."""
        self._open[key].append(_Open(self._rows.reserve(), ts, args or {}))

    def _end(self, *key: Any, ts: int) -> str:
        if not self._open.get(key):
            return "end-without-begin"
        one = self._open[key][-1]
        if ts < one.ts:
            raise _Backwards
        self._open[key].pop()
        self._range(key[0], key[1], one, ts - one.ts)
        return "end of a slice"

    def created(self, fields: list[str], _: str) -> None:
        """A message that is sent: to a chare, to all, or to some PEs. Events number what a PE does."""
        _message, entry, time, event, pe, *rest = fields
        ts, number, key = _time(time), whole(entry), f"{whole(pe)}.{whole(event)}.{whole(entry)}"
        numbers = [whole(one) for one in rest]
        args = {"numPes": sum(numbers[2:3]), "pes": numbers[3:]}
        columns: dict[str, Any] = {"cat": "creation", "args": {name: value for name, value in args.items() if value}}
        columns |= dict(zip(("bytes", "dur"), numbers, strict=False))
        if "dur" in columns:
            columns["dur"] = columns["dur"] * 1000 if 0 <= columns["dur"] < _LATEST else None
        sent = self._event("range", f"send {self._entry(number)}", ts, **columns)
        self._rows.link("flow", key, "out", event=sent, ts=ts, name="message", **self._place)

    def began(self, fields: list[str], _: str) -> None:
        """An entry method that begins, for a message: its event and the PE that sent it."""
        _message, entry, time, event, pe, *rest = fields
        numbers = [whole(one) for one in rest]
        args: dict[str, Any] = {"event": whole(event), "pe": whole(pe)}
        names, version = self._names, self._names.version or 11
        if numbers and version >= 2:
            args["msglen"] = numbers.pop(0)
        if numbers and version >= 4 and 0 < (received := numbers.pop(0)) < _LATEST:  # -1 is written as 2^64 - 1
            args["recvTime"] = received
        readings: list[int] = []
        if version >= 7:
            readings = numbers[max(0, len(numbers) - 1 - names.counted) :]
            numbers = numbers[: len(numbers) - len(readings)]
        elif version >= 6.5:
            readings, numbers = _uncounted(numbers[3:]), numbers[:3]
        if numbers:
            args["index"] = numbers
        ts, number = _time(time), whole(entry)
        one = _Open(self._rows.reserve(), ts, args, readings)
        self._entries[number].append(one)
        key = f"{args['pe']}.{args['event']}.{number}"
        self._rows.link("flow", key, "in", event=one.id, ts=ts, name="message", **self._place)

    def ended(self, fields: list[str], _: str) -> str:
        """The entry method that began last, of this entry."""
        _message, entry, time, _event, _pe, *rest = fields
        numbers = [whole(one) for one in rest[1:]]
        number, ts = whole(entry), _time(time)
        if not self._entries.get(number):
            return "end-without-begin"
        one = self._entries[number][-1]
        if ts < one.ts:
            raise _Backwards
        self._entries[number].pop()
        if self._names.version < 7 and self._names.version:
            numbers = _uncounted(numbers)
        for name, before, after in zip(self._readings(), one.readings, numbers, strict=False):
            one.args[name] = after - before
        self._execution(number, one, ts - one.ts)
        return "end of a slice"

    def _readings(self) -> Iterator[str]:
        """The names of what is read when an entry method begins and ends."""
        yield "cputime"
        for number in range(self._names.counted):
            yield self._names.counters.get(number, f"counter {number}")

    def _execution(self, entry: int, one: _Open, dur: int | None) -> None:
        self._event("range", self._entry(entry), one.ts, id=one.id, dur=dur, cat="processing", args=one.args)

    def mark(self, name: str, fields: list[str], _: str) -> None:
        """What has a time, and nothing else that isn't known."""
        self._event("instant", name, _time(fields[0]))

    def queued(self, name: str, fields: list[str], _: str) -> None:
        """A message that enters or leaves a queue."""
        self._event("instant", name, _time(fields[1]), args={"event": whole(fields[2]), "pe": whole(fields[3])})

    def received(self, fields: list[str], _: str) -> None:
        """A message that is received."""
        entry = [whole(fields.pop(1))] if len(fields) > 5 else []
        args = {"event": whole(fields[2]), "pe": whole(fields[3])} | ({"entry": self._entry(*entry)} if entry else {})
        self._event("instant", "message received", _time(fields[1]), bytes=whole(fields[4]), args=args)

    def state(self, kind: str, name: str, is_end: bool, fields: list[str], _: str) -> str | None:
        """A state of the PE that begins or ends."""
        if is_end:
            return self._end(kind, name, ts=_time(fields[0]))
        self._begin(kind, name, ts=_time(fields[0]))
        return None

    def user_event(self, fields: list[str], _: str) -> None:
        """An event of the user."""
        self._event("instant", self._user(fields[0]), _time(fields[1]), cat="user event")

    def _user(self, number: str) -> str:
        return self._names.events.get(whole(number), f"event {whole(number)}")

    def user_range(self, is_end: bool, fields: list[str], _: str) -> str | None:
        """A range of the user that begins or ends."""
        key = ("range", self._user(fields[0]), whole(fields[4]))
        if is_end:
            return self._end(*key, ts=_time(fields[1]))
        self._begin(*key, ts=_time(fields[1]))
        return None

    def user_pair(self, fields: list[str], _: str) -> str | None:
        """One of two records of a range of the user, its start first."""
        key = ("range", self._user(fields[0]), "pair", whole(fields[2]), *map(whole, fields[4:5]))
        if self._open.get(key):
            return self._end(*key, ts=_time(fields[1]))
        self._begin(*key, ts=_time(fields[1]))
        return None

    def user_data(self, fields: list[str], _: str) -> None:
        """A number that the user supplies."""
        self._event("instant", "user data", _time(fields[1]), args={"data": whole(fields[0])})

    def note(self, fields: list[str], rest: str) -> None:
        """A text of the user."""
        self._event("log", _text(rest, 1), _time(fields[0]), cat="note")

    def bracketed_note(self, fields: list[str], rest: str) -> None:
        """A text of the user with start and end."""
        ts, end = _time(fields[0]), _time(fields[1])
        if end < ts:
            raise _Backwards
        name, text = self._names.events.get(whole(fields[2])), _text(rest, 3)
        self._event("range", text, ts, dur=end - ts, cat="note", args={"event": name} if name else {})

    def memory(self, fields: list[str], _: str) -> None:
        """How much memory is in use, in bytes."""
        self._event("counter", "memory", _time(fields[1]), value=_figure(fields[0]), unit="B")

    def stat(self, fields: list[str], _: str) -> None:
        """A figure of the user, with a time of theirs or -1."""
        name = self._names.stats.get(whole(fields[4]), f"stat {whole(fields[4])}")
        user_time = _figure(fields[1])
        args = {} if user_time == -1 else {"userTime": user_time}
        self._event("counter", name, _time(fields[0]), value=_figure(fields[2]), args=args)

    def phase(self, fields: list[str], _: str) -> None:
        """The end of a phase."""
        self._event("instant", f"end of phase {whole(fields[0])}", _time(fields[1]))


def _figure(text: str) -> float:
    """A number. Raises ValueError for one that isn't finite."""
    if not math.isfinite(figure := float(text)):
        raise ValueError(text[:20])
    return figure


def _uncounted(numbers: list[int]) -> list[int]:
    """The readings of versions before 7: a time, how many counters follow, and these."""
    return numbers[:1] + numbers[2:]


def _text(rest: str, numbers: int) -> str:
    """The text after some numbers and its length in bytes, which vt ends with a blank. ValueError without one."""
    tail = rest.split(" ", numbers)[-1]
    digits = len(tail) - len(tail.lstrip("0123456789"))
    if not digits or rest.count(" ") < numbers:
        raise ValueError("no length")
    for end in range(min(digits, 20), 0, -1):
        for text in (tail[end:], tail[end:].removeprefix(" ")):
            if len(text.encode()) == int(tail[:end]):
                return text or "[no text]"
    return tail[digits:].strip() or "[no text]"


_Reader = Callable[[_Pe, list[str], str], str | None]


def _state(kind: str, name: str, *, is_end: bool) -> _Reader:
    return lambda pe, fields, rest: pe.state(kind, name, is_end, fields, rest)


def _mark(name: str) -> _Reader:
    return lambda pe, fields, rest: pe.mark(name, fields, rest)


def _queued(name: str) -> _Reader:
    return lambda pe, fields, rest: pe.queued(name, fields, rest)


#: The types of records.
_READERS: dict[str, _Reader] = {
    **dict.fromkeys(("1", "20", "21"), _Pe.created),
    "2": _Pe.began,
    "3": _Pe.ended,
    "4": _queued("enqueue"),
    "5": _queued("dequeue"),
    "6": _mark("computation begins"),
    "7": _mark("computation ends"),
    "8": _state("overhead", "interrupt", is_end=False),
    "9": _state("overhead", "interrupt", is_end=True),
    "10": _Pe.received,
    "11": _mark("trace begins"),
    "12": _mark("trace ends"),
    "13": _Pe.user_event,
    "14": _state("sync", "idle", is_end=False),
    "15": _state("sync", "idle", is_end=True),
    "16": _state("overhead", "pack", is_end=False),
    "17": _state("overhead", "pack", is_end=True),
    "18": _state("overhead", "unpack", is_end=False),
    "19": _state("overhead", "unpack", is_end=True),
    "26": _Pe.user_data,
    "27": _Pe.memory,
    "28": _Pe.note,
    "29": _Pe.bracketed_note,
    "30": _Pe.phase,
    "32": _Pe.stat,
    "98": lambda pe, fields, rest: pe.user_range(False, fields, rest),
    "99": lambda pe, fields, rest: pe.user_range(True, fields, rest),
    "100": _Pe.user_pair,
}
