"""The figures of requests, and their tables. Times are ns.

RequestsAnswer
  requests   Request("req-1", end_to_end 253 ms, first_token 116 ms, queue 55 us, prefill 58 ms, decode 138 ms, ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktrace.analysis.work.durations import spread
from ktrace.analysis.work.groups import Spread
from ktrace.tables.figures import Cell, Column, Table, percent


@dataclass(frozen=True)
class Request:
    """A request, as its span and the attributes of OpenTelemetry's conventions for generative AI state it.

    `end_to_end` is the whole time, `first_token` that until the first token, of it `queue` in the queue, `prefill` in
    the model; `decode` is the time in the model from then on. `busy_prefill` and `busy_decode` are how long devices
    worked in these times, the mean over the devices of the trace. None is what isn't stated, or without device work.
    """

    name: str
    source: str
    start: int
    end_to_end: int
    first_token: int | None = None
    queue: int | None = None
    prefill: int | None = None
    decode: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    busy_prefill: int | None = None
    busy_decode: int | None = None

    @property
    def per_token(self) -> int | None:
        """The time from one token to the next."""
        if self.decode is None or self.completion_tokens is None or self.completion_tokens < 2:
            return None
        return round(self.decode / (self.completion_tokens - 1))


#: The times of requests, in the order of the tables.
TIMES = ("end_to_end", "first_token", "queue", "prefill", "decode", "per_token")

_WORDS = {"end_to_end": "end to end", "first_token": "first token", "per_token": "per token"}


@dataclass
class RequestsAnswer:
    """Where the time of requests went."""

    requests: list[Request]
    notes: list[str] = field(default_factory=list)

    def spread(self, name: str) -> Spread | None:
        """Median and extremes of a time of `TIMES` over the requests that have it."""
        known = [time for one in self.requests if (time := getattr(one, name)) is not None]
        return spread(np.array(known, np.int64)) if known else None

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The times of all requests, and the longest requests, at most `top`."""
        columns = (Column("requests"), Column("count", "count"), Column("median", "ns"), Column("p95", "ns"))
        found = [(name, one) for name in TIMES if (one := self.spread(name)) is not None]
        rows: list[tuple[Cell, ...]] = [
            (_WORDS.get(name, name), one.count, one.median, one.p95, one.max) for name, one in found
        ]
        tables = [Table("request", "requests", (*columns, Column("max", "ns")), rows, self.notes)]
        every = sorted(self.requests, key=lambda one: -one.end_to_end)
        return [*tables, self._each(every, every[:top], brief)]

    def _each(self, every: Sequence[Request], shown: Sequence[Request], brief: bool) -> Table:
        figures: list[tuple[Column, Callable[[Request], Cell]]] = [(Column("request"), lambda one: one.name)]
        figures += [(Column(_WORDS.get(name, name), "ns"), _figure(name)) for name in TIMES]
        figures += [
            (Column("prompt", "count"), lambda one: one.prompt_tokens),
            (Column("cached", "count"), lambda one: one.cached_tokens),
            (Column("tokens", "count"), lambda one: one.completion_tokens),
            (Column("busy in prefill", "%"), lambda one: _share(one.busy_prefill, one.prefill)),
            (Column("busy in decode", "%"), lambda one: _share(one.busy_decode, one.decode)),
        ]
        if brief:
            figures = [one for one in figures if any(one[1](request) is not None for request in shown)]
        rows = [tuple(figure(one) for _, figure in figures) for one in shown]
        heads = tuple(column for column, _ in figures)
        return Table("requests", "the longest requests", heads, rows, [], len(every) - len(rows))


def _figure(name: str) -> Callable[[Request], Cell]:
    def figure(one: Request) -> Cell:
        found: Cell = getattr(one, name)
        return found

    return figure


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else percent(part, whole)
