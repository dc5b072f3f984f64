"""Requests of inference servers: how long each waited, was prefilled and decoded, and what devices did meanwhile.

The question of `ktrace summary --by request`, of the spans that vLLM and SGLang send by OpenTelemetry:

    span   llm_request   gen_ai.latency.time_to_first_token 0.116   ...prefill 0.058   ...decode 0.138
             [ queue ][ prefill      ][ decode                   ]
    device            [ gemm ][ gemm ] [ gemm ] [ gemm ]   ...      of another source, on the same clock

Prefill ends with the first token, and decode begins there. Its answer, in ns:

RequestsAnswer
  requests   Request("req-1", end_to_end 253 ms, first_token 116 ms, queue 55 us, prefill 58 ms, decode 138 ms, ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import spread
from ktrace.analysis.work.groups import Spread
from ktrace.analysis.work.question import Answer, Labels, Question
from ktrace.analysis.work.stored_columns import source_of
from ktrace.model.batch import Batch
from ktrace.model.masks import truth, words_in
from ktrace.stages.align.moves import times_related
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"args"})


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question where the time of requests went."""
    return Requests()


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
        times = [time for one in self.requests if (time := getattr(one, name)) is not None]
        return spread(np.array(times, np.int64)) if times else None

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The times of all requests, and the longest requests, at most `top`."""
        columns = (Column("requests"), Column("count", "count"), Column("median", "ns"), Column("p95", "ns"))
        spreads = [(name, one) for name in TIMES if (one := self.spread(name)) is not None]
        rows: list[tuple[Cell, ...]] = [
            (_WORDS.get(name, name), one.count, one.median, one.p95, one.max) for name, one in spreads
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
        value: Cell = getattr(one, name)
        return value

    return figure


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else percent(part, whole)


#: The name of the question, as `--by` takes it.
NAME = "request"

#: Attributes of requests: seconds, and counts (vllm/tracing, sglang/srt/tracing).
_SECONDS = {
    "first_token": "gen_ai.latency.time_to_first_token",
    "queue": "gen_ai.latency.time_in_queue",
    "prefill": "gen_ai.latency.time_in_model_prefill",
    "decode": "gen_ai.latency.time_in_model_decode",
}
_COUNTS = {
    "prompt_tokens": "gen_ai.usage.prompt_tokens",
    "cached_tokens": "gen_ai.usage.cached_tokens",
    "completion_tokens": "gen_ai.usage.completion_tokens",
}
#: What is said where there is no device work, or none in the times of requests.
_ALONE = "Give a trace with kernels as well, to see what devices did during the requests."
_APART = "No device work falls within the requests: the traces cover different times, or their clocks can't be related."

_ID, _IS_REQUEST = "gen_ai.request.id", "gen_ai.latency.e2e"


class Requests:
    """The question where the time of requests went."""

    spans = False

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def see(self, batch: Batch) -> None:
        """Collects the requests among the events of one source."""
        if batch.record != "events" or not len(batch):
            return
        dur, ended = values(batch.columns, "dur")
        rows = np.flatnonzero(words_in(batch.column("kind"), ("range",)) & ended)
        if not len(rows):
            return
        rows = rows[truth(batch.argument(_IS_REQUEST, pa.array(rows)).is_valid())]
        if not len(rows):
            return
        at, source, ts = pa.array(rows), source_of(batch), batch.column("ts").to_numpy()
        columns = {
            name: batch.argument(key, at).to_pylist() for name, key in {**_SECONDS, **_COUNTS, "id": _ID}.items()
        }
        names = batch.column("name").take(at).to_pylist()
        for place, row in enumerate(rows.tolist()):
            stated: dict[str, Any] = {name: _ns(columns[name][place]) for name in _SECONDS}
            stated |= {name: _count(columns[name][place]) for name in _COUNTS}
            name = columns["id"][place] or names[place]
            self._requests.append(Request(name, source, int(ts[row]), int(dur[row]), **stated))

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there are spans of requests."""
        if not self._requests:
            return {}
        sources = {*(one.source for one in self._requests), *work.rows.sources}
        offsets = times_related([*sources], work.gathered.catalog) or {}
        busy = _busy(work, offsets)
        requests = [_with_busy(one, busy, offsets.get(one.source, 0)) for one in self._requests]
        if busy and not any(one.busy_prefill or one.busy_decode for one in requests):
            return {NAME: RequestsAnswer(self._requests, [_APART])}
        return {NAME: RequestsAnswer(requests, [] if busy else [_ALONE])}


def _busy(work: Work, offsets: dict[str, int]) -> list[Intervals]:
    """When each device worked, in unix time as far as that is known; empty without device work."""
    if not work.is_on_devices or not len(work):
        return []
    busy = []
    for events in work.each():
        device, devices = events.places
        begin = events.ts + offsets.get(events.source, 0)
        end = begin + events.dur
        busy += [Intervals.union(begin[device == place], end[device == place]) for place in range(len(devices))]
    return busy


def _with_busy(one: Request, busy: list[Intervals], offset: int) -> Request:
    """The request with how long devices worked in its prefill and its decode."""
    if not busy or one.first_token is None:
        return one
    first = one.start + offset + one.first_token
    prefill = None if one.prefill is None else _within(busy, first - one.prefill, first)
    decode = None if one.decode is None else _within(busy, first, first + one.decode)
    return replace(one, busy_prefill=prefill, busy_decode=decode)


def _within(busy: list[Intervals], begin: int, end: int) -> int:
    """The time in an interval in which a device worked, the mean over the devices."""
    part = Intervals.from_pairs([(begin, end)])
    times = [sum(b - a for a, b in one.intersection(part).pairs()) for one in busy]
    return round(sum(times) / len(times))


def _ns(seconds: str | None) -> int | None:
    try:
        number = float(seconds) if seconds is not None else None
    except ValueError:
        return None
    return round(number * 1e9) if number is not None and 0 <= number < 1e9 else None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 16 else None
