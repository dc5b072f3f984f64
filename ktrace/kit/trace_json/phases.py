"""Turns events into canonical batches: the phases of the Trace Event Format, by the rules of a dialect.

    X B E b n e S T p F i I R P N O D V v ( ) {     slices, halves, instants     slices.py
    C                                               counters                     counters.py
    s t f, bind_id, waits                           links                        slices.py
    M                                               catalog                      here
    c                                               clock sync: an instant

No state is kept between calls: the reader makes facts from the document's other members (the clock's base, the devices'
properties), which may come late.

Metadata events (M): names, labels and order of processes and threads, for the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant, indices
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_of
from ktrace.model.json_text import dump_json, encoded, json_cells, load_json
from ktrace.model.row_builder import to_batch

from .counters import counters
from .dialect import Dialect, Rule, Sign
from .draft import Draft, Task, by_word, numbered, valid
from .events import Events
from .places import plain
from .slices import asyncs, begins, ends, flows, instants, slices


def metadata(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """Yields a fact for each distinct event; of equal events the last one counts.

    Metadata other than names, labels and order is a fact, under its own name, of the process, of the thread, or of a
    track if the pid is a text.
    """
    task.report.used(len(events), outcome="catalog")
    draft = Draft.from_events(events)
    for member in ("ts", "dur", "cat", "id", "bp", "s", "args.$tts"):
        draft.left.pop(member, None)
    last = _distinct(draft.left, len(draft))
    distinct = {name: column.take(pa.array(last)) for name, column in draft.left.items()}
    yield to_batch("catalog", [*_rows_of_facts(distinct, draft.at[last].tolist(), task.dialect)])


def _distinct(columns: dict[str, pa.Array], rows: int) -> Int64:
    """The last one of each set of equal rows, in order."""
    code = np.zeros(rows, np.int64)
    for column in map(encoded, columns.values()):
        code = code * (len(column.dictionary) + 1) + indices(column) + 1
        if len(column.dictionary) > 1:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    _, last = np.unique(code[::-1], return_index=True)
    return np.sort(rows - 1 - last)


def _rows_of_facts(columns: dict[str, pa.Array], at: list[int], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The rows of the catalog, as dicts."""
    names = _texts(columns.get("name"), len(at))
    pids, tids = _numbers(columns.get("pid"), len(at)), _numbers(columns.get("tid"), len(at))
    args: list[dict[str, Any]] = [{} for _ in at]
    for name, column in columns.items():
        if name.startswith("args."):
            for row, cell in zip(args, json_cells(column).to_pylist(), strict=True):
                if cell is not None:
                    row[name.removeprefix("args.")] = load_json(cell)
    for number, name, (pid, process), (tid, thread), given in zip(at, names, pids, tids, args, strict=True):
        entity: dict[str, Any] = {"entity": "process", "pid": pid}
        if name.startswith("thread_"):
            entity |= {"entity": "thread", "tid": tid}
        text = "/".join(filter(None, (process, thread if name.startswith("thread_") else None)))
        if text:
            entity |= {"entity": "track", "track": text}
        yield {"id": number} | _without_none(entity) | _facts(name, given)
        if dialect.stream_name and name == "thread_name" and pid is not None and tid is not None:
            found = dialect.stream_name.fullmatch(str(given.get("name", "")).strip())
            if found and whole_of(found[1]) == tid:
                yield {"id": number, "entity": "stream", "device": pid, "stream": tid, "name": given["name"].strip()}


def _facts(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The name, order or facts of an event's entity."""
    row: dict[str, Any] = {}
    args = dict(args)
    if name in ("process_name", "thread_name") and isinstance(args.get("name"), str):
        row["name"] = args.pop("name")
    elif name in ("process_sort_index", "thread_sort_index"):
        order = args.get("sort_index")
        if type(order) is int and abs(order) < 1 << 62:
            row["order"] = args.pop("sort_index")
    elif name == "process_labels" and isinstance(args.get("labels"), str):
        row["facts"] = dump_json({"labels": args.pop("labels")})
    if args and "facts" not in row:
        known = name in ("process_name", "thread_name")
        row["facts"] = dump_json(args if known else {name: args if len(args) > 1 else next(iter(args.values()))})
    return row


def _without_none(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _texts(column: pa.Array | None, rows: int) -> list[str]:
    return [""] * rows if column is None else [text or "" for text in plain(column).to_pylist()]


def _numbers(column: pa.Array | None, rows: int) -> list[tuple[int | None, str | None]]:
    """The number of each row, or its text."""
    if column is None:
        return [(None, None)] * rows
    taken, rest = numbered(column)
    found = [None] * rows if taken is None else taken.to_pylist()
    texts = [None] * rows if rest is None else plain(rest).to_pylist()
    return list(zip(found, texts, strict=True))


Handler = Callable[[Events, Rule, Task], Iterable[Batch]]

#: Phase -> the handler that makes rows from its events. An unknown phase is an instant that keeps its `$ph`.
_HANDLERS: dict[str, Handler] = {
    "X": slices,
    "B": begins,
    "E": ends,
    **dict.fromkeys("bneSTpF", asyncs),
    **dict.fromkeys("stf", flows),
    "C": counters,
    "M": metadata,
}
_ORDER: list[Handler] = [*dict.fromkeys(_HANDLERS.values()), instants]

#: More rules than a dialect has.
_MOST_RULES = 1 << 10

#: Handlers whose rows depend on the rule of the category; of these, those that `signs` apply to.
_BY_CAT: set[Handler] = {slices, begins, ends}
_SIGNED: set[Handler] = {slices, begins}


def mapper(dialect: Dialect) -> Callable[[Events, Conversion], Iterator[Batch]]:
    """Returns the `rows` of `read_document` for a dialect. It can be sent to another process."""
    return partial(_rows, dialect)


def _rows(dialect: Dialect, events: Events, conversion: Conversion) -> Iterator[Batch]:
    for batch in to_batches(events, Task(dialect, conversion.label, conversion.report)):
        yield from bounded(batch, conversion.batch_rows)


def to_batches(events: Events, task: Task) -> Iterator[Batch]:
    """Yields the rows of some events, of any phases, and accounts for the events in the task's report."""
    for part, handler, rule in _sorted_out(events, task.dialect):
        for batch in handler(part, rule, task):
            if len(batch):
                yield _of_source(batch, task.label)


def _of_source(batch: Batch, label: str) -> Batch:
    return Batch(batch.record, batch.columns.add_column(0, "source", constant(label, len(batch))))


def bounded(batch: Batch, rows: int) -> Iterator[Batch]:
    """Yields the batch in pieces of at most `rows` rows."""
    if len(batch) <= rows:
        yield batch
        return
    for start in range(0, len(batch), rows):
        yield Batch(batch.record, batch.columns.slice(start, rows))


class _Numbers(msgspec.Struct):
    """Numbers the rules in the order of first use."""

    rules: list[Rule]

    def of(self, rule: Rule) -> int:
        for number, known in enumerate(self.rules):
            if known is rule:
                return number
        self.rules.append(rule)
        return len(self.rules) - 1


def _sorted_out(events: Events, dialect: Dialect) -> Iterator[tuple[Events, Handler, Rule]]:
    """Yields the events by handler and rule. If all have the same, they aren't copied."""
    rows, columns = len(events), events.columns
    phase = by_word(columns.get("ph"), rows, lambda word: _ORDER.index(_HANDLERS.get(word or "", instants)))
    rule = np.zeros(rows, np.int64)
    numbers = _Numbers([dialect.other])
    handlers = {_ORDER[number] for number in np.flatnonzero(np.bincount(phase))}
    if handlers & _BY_CAT:
        rule = by_word(columns.get("cat"), rows, lambda word: numbers.of(dialect.of_cat(word)))
    if handlers & _SIGNED:
        for sign in dialect.signs:
            rule = np.where((rule == 0) & _has(sign, events, dialect), numbers.of(sign.rule), rule)
        of_cats = [(number, one.processes) for number, one in enumerate(numbers.rules) if one.processes]
        for number, processes in [*of_cats, *([(0, dialect.processes)] if dialect.processes else [])]:
            rule = np.where(rule == number, _by_process(events, processes, numbers, number), rule)
    if instants in handlers and dialect.names:
        named = by_word(
            columns.get("name"), rows, lambda word: numbers.of(dialect.names.get(word or "", dialect.other))
        )
        rule = np.where(phase == _ORDER.index(instants), named, rule)
    ruled = np.array([handler in _BY_CAT or handler is instants for handler in _ORDER])
    group = phase * _MOST_RULES + np.where(ruled[phase], rule, 0)
    for number in np.flatnonzero(np.bincount(group)).tolist():
        handler, rule_number = divmod(number, _MOST_RULES)
        yield events_at(events, group == number), _ORDER[handler], numbers.rules[rule_number]


def _by_process(events: Events, processes: Mapping[int, Rule], numbers: _Numbers, other: int) -> Int64:
    """The number of the rule for each event's process, `other` for none."""
    found = np.full(len(events), other, np.int64)
    column = events.columns.get("pid")
    pids = None if column is None else numbered(column)[0]
    if pids is not None:
        own = pids.fill_null(-1).to_numpy(zero_copy_only=False)
        for pid, rule in processes.items():
            found[own == pid] = numbers.of(rule)
    return found


def _has(sign: Sign, events: Events, dialect: Dialect) -> Bools:
    """Whether each event has the arguments of a sign, and isn't a call of the host."""
    columns = [events.columns.get(f"args.{key}") for key in sign.keys]
    found = np.full(len(events), all(column is not None for column in columns))
    if not found.any():
        return found
    for column in columns:
        found &= valid(column)
    pattern, calls = sign.value, dialect.calls
    if pattern:
        found &= by_word(columns[0], len(events), lambda word: bool(pattern.fullmatch(str(word or "")))) == 1
    if calls:
        found &= by_word(events.columns.get("name"), len(events), lambda word: bool(calls.match(word or ""))) == 0
    return found


def events_at(events: Events, mask: Bools) -> Events:
    """The events for which the mask is true, without columns that none of them has."""
    if mask.all():
        return events
    index = pa.array(np.flatnonzero(mask))
    taken = {name: column.take(index) for name, column in events.columns.items()}
    return Events(events.at[mask], {name: column for name, column in taken.items() if column.null_count < len(column)})
