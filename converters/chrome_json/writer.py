"""Writes a timeline as Chrome trace JSON, one event per line; the lines of a batch are made a column at a time.

    {"ph":"X","name":"gemm","cat":"kernel","pid":4242,"tid":1,"ts":12.345,"dur":3.210,"args":{"id":5,"kind":"kernel"}}
    {"ph":"f","name":"launch","cat":"launch","bp":"e","pid":4242,"tid":1,"ts":12.345,"id":7}

Arguments are columns of the model, and the source's own `args`. The format has no tracks but threads of processes:

    "rows": [{"pid":4242,"tid":4242,"track":{"source":"run","pid":4242,"tid":4242}},
             {"pid":4242,"tid":1,"track":{"source":"run","pid":4242,"device":0,"stream":7}}],
    "lanes": {"first":1073741824,"each":1024}

Slices that overlap on a track without nesting are on its lanes 1, 2, ...: lane n of the track at index i of the list
has the tid first + i * each + n - 1. A flow leaves once in a Chrome trace, while an arrow of the model may leave often:

    ends of one arrow      out in   out out in in   out in in
    flow                    1   1    2   3   2  3    4   4  4
    phase                   s   f    s   s   f  f    s   t  f

Many programs reuse the id of a flow after it has arrived. The nth arrival belongs to the nth departure, or to the last
one if there are fewer. A flow ends (f) at its last arrival; an earlier arrival is a step (t).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ktrace
from ktrace.conversion import Conversion
from ktrace.kit.canonical import as_bytes, json_rows
from ktrace.kit.timelines import RESERVED, argument_columns, argument_name
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import VERSION, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_rows import Cells, Part, as_text, fold_args, join_rows, patched_begins
from ktrace.model.json_text import decoded, dump_json, json_cells, load_json
from ktrace.model.masks import present, slice_rows, words_in
from ktrace.model.tracks import Node, Process, Track, arrange, give_ids
from ktrace.output import Sink
from ktrace.stages.order import Arrows, Timeline, TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

#: Viewers store process and thread ids in 32 bits. The upper half of the thread ids is for lanes.
HIGHEST_ID = 2**31 - 1
FIRST_LANE = 2**30

#: Sort indexes between two tracks, for the lanes of the first.
_LANES = 1024


class _Place(NamedTuple):
    """A track: its process, its name after those of the nodes around it, its position among all tracks."""

    process: Node
    node: Node
    name: str
    sort_index: int


class TrackIds:
    """Gives tracks and their lanes a pid and a tid. The metadata events of new ones gather in `fresh`."""

    def __init__(self, tracks: Sequence[Track], catalog: Catalog) -> None:
        self.fresh: list[str] = []
        processes = arrange(tracks, catalog)
        pids = [node.key.pid if isinstance(node.key, Process) else None for node in processes]
        self._pids = dict(zip(processes, give_ids(pids, HIGHEST_ID), strict=True))
        self._order = {node: index for index, node in enumerate(processes)}
        self._places = dict(_places(processes))
        self._tids = {node: _thread_ids(node) for node in processes}
        self._free = {node: self._free_tids(node) for node in processes}
        # Viewers order the threads of a process by their ids.
        for number, place in self._places.items():
            tids = self._tids[place.process]
            if number not in tids:
                tids[number] = next(self._free[place.process])
        self._tracks = tracks
        self._lanes_per_track = min(_LANES, FIRST_LANE // max(len(tracks), 1))
        self._rows: dict[tuple[int, int], str] = {}
        self._named: set[Node] = set()

    def row(self, number: int, lane: int) -> str:
        """Returns the fields `"pid":1,"tid":2` of a lane of the track with that index in the timeline."""
        row = self._rows.get((number, lane))
        if row is None:
            place = self._places[number]
            lane = min(lane, self._lanes_per_track)
            tid = FIRST_LANE + number * self._lanes_per_track + lane - 1 if lane else self._tid(number)
            row = self._rows[number, lane] = f'{self.process(number)},"tid":{tid}'
            self._meta(row, "thread_name", name=place.name)
            self._meta(row, "thread_sort_index", sort_index=place.sort_index + min(lane, _LANES - 1))
        return row

    def facts(self) -> dict[str, Any]:
        """Returns the data that restores the tracks: `rows`, in the order of the timeline's tracks, and `lanes`."""
        rows = [
            {
                "pid": self._pids[self._places[number].process],
                "tid": self._tid(number),
                "track": {column: value for column, value in track._asdict().items() if value is not None},
            }
            for number, track in enumerate(self._tracks)
        ]
        return {"rows": rows, "lanes": {"first": FIRST_LANE, "each": self._lanes_per_track}}

    def _tid(self, number: int) -> int:
        return self._tids[self._places[number].process][number]

    def process(self, number: int) -> str:
        """Returns the field `"pid":1` of the track with that index in the timeline."""
        process = self._places[number].process
        field = f'"pid":{self._pids[process]}'
        if process not in self._named:
            self._named.add(process)
            self._meta(field, "process_name", name=process.shown.name)
            self._meta(field, "process_sort_index", sort_index=self._order[process])
            if process.shown.labels:
                self._meta(field, "process_labels", labels=", ".join(process.shown.labels))
        return field

    def counter_prefix(self, number: int) -> str | None:
        """The text before the names of counters on a track: its name if it is a text track."""
        name = self._places[number].name
        return None if name == "events" or self._places[number].node.kind in ("process", "thread") else name

    def _free_tids(self, process: Node) -> Iterator[int]:
        """Ids for tracks that aren't threads: not a thread's id, nor the process id, which is the main thread's."""
        taken = {*_thread_ids(process).values(), self._pids[process]}
        return (tid for tid in count(1) if tid not in taken)

    def _meta(self, place: str, event: str, **args: Any) -> None:
        self.fresh.append(f'{{"ph":"M","name":"{event}",{place},"args":{dump_json(args)}}}')


def _places(processes: Sequence[Node]) -> Iterator[tuple[int, _Place]]:
    """Yields the index of each track in the timeline, and the track."""
    for process in processes:
        for index, (node, name) in enumerate(_named(process.children, "")):
            if node.number is not None:
                yield node.number, _Place(process, node, name, index * _LANES)


def _named(nodes: Sequence[Node], around: str) -> Iterator[tuple[Node, str]]:
    for node in nodes:
        name = f"{around} › {node.shown.name}" if around else node.shown.name
        yield node, name
        yield from _named(node.children, name)


def _thread_ids(process: Node) -> dict[int, int]:
    """Returns index in the timeline -> tid, for the tracks that are threads with a legal id."""
    threads = (node for node in process.children if node.kind == "thread" and node.number is not None)
    return {
        node.number: node.key.tid
        for node in threads
        if isinstance(node.key, Track) and node.number is not None and 1 <= (node.key.tid or 0) < FIRST_LANE
        if node.key.tid is not None
    }


LAUNCH = ARROW_KINDS.index("launch")

#: Numbers of arrows are lower than this.
_NEXT = 1 << 32


class FlowIds:
    """Assigns flows, batch after batch. Takes eight bytes per arrow."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, 0), np.int32)  # departures and arrivals of each arrow so far

    def flows(self, arrows: Arrows) -> tuple[Int64, Bools]:
        """Returns the flow of each end, and whether it is the last arrival of that flow."""
        flow, ended = arrows.arrow.astype(np.int64), arrows.kind == LAUNCH
        rest = np.flatnonzero(~ended)
        if not len(rest):
            return flow, ended
        order = rest[np.argsort(arrows.arrow[rest], kind="stable")]
        arrow, out = arrows.arrow[order], arrows.out[order]
        self._grow(int(arrow[-1]) + 1)
        first = np.flatnonzero(np.diff(arrow, prepend=-1))
        departures = self._running(0, out, arrow, first)
        arrivals = self._running(1, ~out, arrow, first)
        number = np.maximum(np.where(out, departures, np.minimum(arrivals, departures)), 1)
        flow[order] = arrow + (number - 1) * _NEXT
        next_is_new = ~out & (arrivals < departures)  # the next arrival belongs to a later departure
        ended[order] = arrows.last[order] | next_is_new
        return flow, ended

    def _grow(self, arrows: int) -> None:
        missing = arrows - self._counts.shape[1]
        if missing > 0:
            self._counts = np.pad(self._counts, ((0, 0), (0, missing + arrows // 2)))

    def _running(self, which: int, mask: Bools, arrow: Int64, first: Int64) -> Int64:
        """Returns the count of ends in the mask that each arrow has had up to each end; ends are grouped by arrow."""
        total = np.cumsum(mask, dtype=np.int64)
        before = (total - mask)[first]
        sizes = np.diff(np.append(first, len(mask)))
        running: Int64 = total - np.repeat(before, sizes) + self._counts[which, arrow]
        self._counts[which, arrow[first]] = running[np.append(first[1:], len(mask)) - 1]
        return running


#: Rows whose lines are made at once; limits memory.
CHUNK = 32_768

#: Key of `otherData` that viewers ignore.
OTHER_DATA_KEY = "ktrace"


class Writer:
    """A TimelineWriter of complete events (X), instants (i), counters (C) and flows (s, t, f)."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._flow_ids = FlowIds()
        self._is_first = True

    def start(self, timeline: Timeline) -> None:
        """Writes the head. Times count from the start of the trace."""
        self._rows = TrackIds(timeline.tracks, timeline.catalog)
        self._lines = _Lines(self._rows, timeline.start, timeline.end)
        if timeline.start:
            self._report.issue("origin", "output", f"{timeline.start} ns were subtracted", 0)
        about = {"ktrace": VERSION, "version": ktrace.__version__, "origin_ns": timeline.start} | self._rows.facts()
        about["catalog"] = _catalog(timeline.catalog)
        head = {"displayTimeUnit": "ns", "otherData": {OTHER_DATA_KEY: about}}
        self._stream.write((dump_json(head)[:-1] + ',"traceEvents":[\n').encode("utf-8", "replace"))

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns the number of events and arrow ends that it kept.

        A counter that isn't a number is left out.
        """
        flows = self._flow_ids.flows(batch.arrows)
        kept = sum(self._write(batch, first, flows) for first in range(0, len(batch), CHUNK))
        return kept + batch.link_ends

    def close(self) -> None:
        """Writes the end."""
        self._stream.write(b"\n]}\n")

    def _write(self, batch: TimelineBatch, first: int, flow_ids: _Flows) -> int:
        """Writes the rows from `first` on and returns how many it kept."""
        events = Batch("events", batch.batch.columns.slice(first, CHUNK))
        track = batch.track[first : first + CHUNK]
        flows = self._lines.flows(events, track, batch.arrows, first, flow_ids)
        counter = words_in(events.column("kind"), ("counter",))
        if not counter.any():
            self._put(self._lines.slices(events, track, flows))
            return len(events)
        number = pc.is_finite(events.column("value")).fill_null(False).to_numpy(zero_copy_only=False)
        texts, places = [], []
        for mask in (~counter, counter & number):
            index = np.flatnonzero(mask)
            if len(index):
                taken = Batch("events", events.columns.take(pa.array(index)))
                if mask[index[0]] and counter[index[0]]:
                    texts.append(self._lines.counters(taken, track[index]))
                else:
                    flows_of_rows = None if flows is None else flows.take(pa.array(index))
                    texts.append(self._lines.slices(taken, track[index], flows_of_rows))
                places.append(index)
        if texts:
            order = np.argsort(np.concatenate(places), kind="stable")
            self._put(pa.concat_arrays(texts).take(pa.array(order)))
        return len(events) - int(np.count_nonzero(counter & ~number))

    def _put(self, lines: pa.BinaryArray) -> None:
        """Writes lines, after the lines that name new processes and threads."""
        names = "".join(_SEPARATOR + line for line in self._rows.fresh).encode("utf-8", "replace")
        self._rows.fresh = []
        for text in (memoryview(names), as_bytes(lines)):
            if len(text):
                self._stream.write(text[len(_SEPARATOR) :] if self._is_first else text)
                self._is_first = False


def _catalog(catalog: Catalog) -> list[dict[str, Any]]:
    """The rows of the catalog as in the canonical JSON forms, without `record`."""
    rows = [load_json(row) for row in json_rows(catalog.to_batch()).to_pylist()]
    return [{key: value for key, value in row.items() if key != "record"} for row in rows]


#: Members that the writer uses or that viewers draw: the source's values for them stay in args.
_WRITERS_MEMBERS = frozenset(
    {
        *("ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "bp"),
        *("id", "id2", "scope", "bind_id", "flow_in", "flow_out"),
    }
)


def arguments(events: Batch) -> dict[str, pa.Array]:
    """Returns the arguments of the events that are columns: name -> a value per row, null if the row has none.

    `kind` is left out if it is the category, and track columns that (pid, tid) implies. Typed arguments that are
    members of the event are in `source_arguments` instead.
    """
    cat = present(events.column("cat")) if events.has("cat") else None
    columns = argument_columns(events, cat)
    taken = {"value", "unit", *_package_columns(events)}
    for name in events.typed_args():
        key, column = name.removeprefix("args."), events.columns.column(name)
        if column.null_count < len(column) and not _is_member(key):
            columns[argument_name(key, taken)] = column
    return columns


def dimensions(events: Batch, name: str) -> list[Part]:
    """Returns `grid` or `block` as {x, y, z}, or one number if only the product is known."""
    if not events.has(f"{name}_x"):
        return []
    x, y, z = (events.column(f"{name}_{axis}") for axis in "xyz")
    if y.null_count == len(y) and z.null_count == len(z):
        return [Cells(f',"{name}":', x)]
    without = pc.and_(pc.and_(x.is_null(), y.is_null()), z.is_null()).true_count
    if x.null_count == y.null_count == z.null_count == without:
        return [Cells(f',"{name}":{{"x":', x), Cells(',"y":', y), Cells(',"z":', z, "}")]
    texts = [json_cells(column).fill_null("null") for column in (x, y, z)]
    whole = pc.binary_join_element_wise('{"x":', texts[0], ',"y":', texts[1], ',"z":', texts[2], "}", "")
    shown = pc.if_else(pc.and_(y.is_null(), z.is_null()), json_cells(x), whole)
    return [Cells(f',"{name}":', as_text(shown))]


def source_arguments(events: Batch) -> tuple[pa.StringArray | None, list[Part]]:
    """Returns the source's `args` as JSON objects (None: no row has any), and members of the events.

    Members are the keys with a `$`, of fields that were next to the arguments: `$tts` becomes "tts" of the event again,
    unless the writer or viewers use that member. A key that is also the name of a column becomes `args.<key>`.
    """
    members: list[Part] = []
    for name in events.typed_args():
        key, column = name.removeprefix("args."), events.columns.column(name)
        if _is_member(key) and column.null_count < len(column):
            members.append(Cells(f",{dump_json(key[1:])}:", column))
    if not events.has("args") or events.columns.column("args").null_count == len(events):
        return None, members
    texts = decoded(events.columns.column("args"))
    names = "|".join(re.escape(name) for name in sorted(RESERVED | _package_columns(events)))
    to_rewrite = pc.match_substring_regex(texts, rf'"(({names})"\s*:|\$|args\.)|^\s|\s$|^\{{\s*\}}$')
    if to_rewrite.true_count:
        index = np.flatnonzero(to_rewrite.fill_null(False).to_numpy(zero_copy_only=False))
        taken = [_split_members(text, _package_columns(events)) for text in texts.take(pa.array(index)).to_pylist()]
        mask = to_rewrite.fill_null(False)
        texts = pc.replace_with_mask(texts, mask, pa.array([kept for kept, _ in taken], pa.string()))
        outside = pc.replace_with_mask(
            pa.nulls(len(texts), pa.string()), mask, pa.array([given for _, given in taken], pa.string())
        )
        members.append(Cells("", as_text(outside)))
    return texts if texts.null_count < len(texts) else None, members


def _package_columns(events: Batch) -> set[str]:
    """The columns of other packages."""
    return {name for name in events.columns.schema.names if name.startswith("x_")}


def _split_members(text: str, extra: set[str]) -> tuple[str | None, str | None]:
    """Returns an object with renamed keys and without blanks around it (None: empty), and the event's members."""
    inside, outside = [], []
    for key, raw in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
        value = bytes(raw).decode()
        if _is_member(key):
            outside.append(f",{dump_json(key[1:])}:{value}")
        else:
            inside.append(f"{dump_json(argument_name(key, dict.fromkeys(extra)))}:{value}")
    return f"{{{','.join(inside)}}}" if inside else None, "".join(outside) or None


def _is_member(key: str) -> bool:
    return key.startswith("$") and len(key) > 1 and key[1:] not in _WRITERS_MEMBERS and not key.startswith("$ktrace.")


#: Before each line but the first of the file.
_SEPARATOR = ",\n"

#: The digits of a microsecond's thousandths.
_THOUSANDTHS = pa.array([b"%03d" % number for number in range(1000)], pa.binary())

#: The flow of each arrow end, and whether it has ended there.
_Flows = tuple[Int64, Bools]


class _Lines:
    """Makes the lines of events. `origin` is subtracted from their times, `end` is the time at which the trace ends."""

    def __init__(self, rows: TrackIds, origin: int, end: int) -> None:
        self._rows = rows
        self._origin = origin
        self._end = end

    def slices(self, events: Batch, track: Int32, flows: pa.BinaryArray | None) -> pa.BinaryArray:
        """Returns slices (X) and points (i), each followed by the lines of its arrows."""
        ts = events.column("ts").to_numpy()
        place, places = self._places(track, _lanes(events))
        is_slice = slice_rows(events)
        head = _heads(events, (is_slice.astype(np.int32), ['"ph":"i"', '"ph":"X"']), (place, places))
        parts: list[Part] = [Cells(_SEPARATOR + "{", head), *microseconds(',"ts":', ts - self._origin)]
        parts += microseconds(',"dur":', *self._durations(events, ts, is_slice))
        texts, members = source_arguments(events)
        parts.append(',"args":{')
        comma = ""
        for key, column in arguments(events).items():
            parts.append(Cells(f"{comma}{dump_json(key)}:", column))
            comma = ","
        parts += [part for name in ("grid", "block") for part in dimensions(events, name)]
        if texts is not None:  # its closing brace closes the arguments
            with_text = texts.is_valid()
            parts += [Cells("", as_text(patched_begins(texts, ord(",")))), Cells("", _where(~_bools(with_text), "}"))]
        else:
            parts.append("}")
        parts += members
        parts.append("}")
        if flows is not None:
            parts.append(Cells("", flows))
        return join_rows(parts, len(events))

    def counters(self, events: Batch, track: Int32) -> pa.BinaryArray:
        """Returns counters (C). Viewers show the name of the counter and that of the value, here its unit.

        They draw each argument as a value, so all else is next to the arguments, as `ktrace.<column>`.
        """
        numbers, processes, prefixes = np.unique(track), [], []
        for number in numbers.tolist():
            processes.append(self._rows.process(number))
            prefixes.append(self._rows.counter_prefix(number))
        code = np.searchsorted(numbers, track).astype(np.int32)
        head = _heads(events, (np.zeros(len(events), np.int32), ['"ph":"C"']), (code, processes), prefixes)
        ts = events.column("ts").to_numpy()
        parts: list[Part] = [Cells(_SEPARATOR + "{", head), *microseconds(',"ts":', ts - self._origin)]
        dur = events.column("dur")
        parts += microseconds(',"dur":', dur.fill_null(0).to_numpy(), _bools(dur.is_valid()))
        unit, units = _encoded(events.column("unit").fill_null("value"))
        key = pa.DictionaryArray.from_arrays(unit, as_text(json_cells(pa.array(units, pa.string()))))
        value = events.column("value").cast(pa.string())
        parts += [Cells(',"args":{', key), Cells(":", as_text(value), "}"), Cells(',"ktrace.id":', events.column("id"))]
        parts.append(Cells(',"ktrace.track":', pa.array(track)))
        if any(prefixes):
            parts.append(Cells(',"ktrace.name":', events.column("name")))
        columns = {name: column for name, column in arguments(events).items() if name != "id"}
        texts, members = source_arguments(events)
        rest = fold_args(pa.nulls(len(events), pa.string()) if texts is None else texts, columns)
        return join_rows([*parts, Cells(',"ktrace.args":', as_text(rest)), *members, "}"], len(events))

    def flows(self, events: Batch, track: Int32, arrows: Arrows, first: int, flow_ids: _Flows) -> pa.BinaryArray | None:
        """Returns for each row the lines of the arrow ends on it, null if there are none.

        `events` begin at row `first` of the batch; `flow_ids` has the flow of each arrow end of the batch, and whether
        the flow has ended there.
        """
        begin, end = np.searchsorted(arrows.row, [first, first + len(events)])
        if begin == end:
            return None
        row = arrows.row[begin:end] - first
        kind = arrows.kind[begin:end].astype(np.int32)
        flow, ended = (array[begin:end] for array in flow_ids)
        phase = np.where(arrows.out[begin:end], 0, np.where(ended, 2, 1)).astype(np.int32)
        place, places = self._places(track[row], _lanes(events)[row])
        tables = ([f'"ph":"{letter}"' for letter in "stf"], _FLOWS, places)
        head = _combined([phase, kind, place], tables)
        ts = events.column("ts").to_numpy()[row]
        at = pa.array(np.where(kind == LAUNCH, 0, events.column("id").to_numpy()[row]), mask=kind == LAUNCH)
        parts: list[Part] = [Cells(_SEPARATOR + "{", head), *microseconds(',"ts":', ts - self._origin)]
        parts += [Cells(',"id":', pa.array(flow)), Cells(',"args":{"event":', at, "}"), "}"]
        return _by_row(join_rows(parts, len(row)), row, len(events))

    def _places(self, track: Int32, lane: Int64) -> tuple[Int32, list[str]]:
        """Returns process and thread of rows: numbers, and their texts."""
        codes = pa.array(track.astype(np.int64) << 32 | lane).dictionary_encode()
        texts = [self._rows.row(code >> 32, code & 0xFFFFFFFF) for code in codes.dictionary.to_pylist()]
        return codes.indices.to_numpy(), texts

    def _durations(self, events: Batch, ts: Int64, is_slice: Bools) -> tuple[Int64, Bools]:
        """Returns durations, and which rows have one: all slices, to the end of the trace if their end is unknown."""
        dur = events.column("dur")
        has = _bools(dur.is_valid())
        return np.where(has, dur.fill_null(0).to_numpy(), self._end - ts), has | is_slice


_FLOWS = [f'"name":"{kind}","cat":"{kind}","bp":"e"' for kind in ARROW_KINDS]


def microseconds(before: str, ns: Int64, has: Bools | None = None) -> list[Part]:
    """Returns times in ns, from 0, as microseconds with three decimals, without a float in between."""
    whole, rest = np.divmod(ns, 1000)
    mask = None if has is None or has.all() else ~has
    thousandths = pa.DictionaryArray.from_arrays(pa.array(rest.astype(np.int32), mask=mask), _THOUSANDTHS)
    return [Cells(before, pa.array(whole, mask=mask)), Cells(".", thousandths)]


def _heads(
    events: Batch,
    phase: tuple[Int32, list[str]],
    place: tuple[Int32, list[str]],
    prefixes: Sequence[str | None] = (),
) -> pa.DictionaryArray:
    """Returns what many rows share: phase, name, category, process and thread.

    `prefixes` has for each place the text before its names.
    """
    name, names = _encoded(events.column("name"))
    cat, cats = _categories(events)
    if any(prefixes):
        combined = pa.array(place[0].astype(np.int64) * len(names) + name).dictionary_encode()
        pairs = [divmod(code, len(names)) for code in combined.dictionary.to_pylist()]
        names = [_prefixed(prefixes[where], names[what]) for where, what in pairs]
        name = combined.indices.to_numpy()
    shown, shown_cats = (json_cells(pa.array(texts, pa.string())).to_pylist() for texts in (names, cats))
    tables = (
        phase[1], [f'"name":{text}' for text in shown], [f'"cat":{text}' for text in shown_cats], place[1]
    )  # fmt: skip
    return _combined([phase[0], name, cat, place[0]], tables)


def _prefixed(prefix: str | None, name: str) -> str:
    return name if prefix in (None, name) else f"{prefix} {name}"


def _combined(codes: Sequence[Int32], tables: Sequence[list[str]]) -> pa.DictionaryArray:
    """Joins the texts of several columns with commas, once per combination that occurs."""
    code = np.zeros(len(codes[0]), np.int64)
    for numbers, table in zip(codes, tables, strict=True):
        code = code * len(table) + numbers
    combined = pa.array(code).dictionary_encode()
    rest = combined.dictionary.to_numpy()
    texts: list[pa.Array] = []
    for table in reversed(tables):
        rest, numbers = np.divmod(rest, len(table))
        texts.insert(0, pa.array(table, pa.string()).take(pa.array(numbers)))
    return as_text(pa.DictionaryArray.from_arrays(combined.indices, pc.binary_join_element_wise(*texts, ",")))


def _categories(events: Batch) -> tuple[Int32, list[str]]:
    """Returns the category of each row: the source's own, else the kind."""
    code, kinds = _encoded(events.column("kind"))
    if not events.has("cat"):
        return code, kinds
    stated = events.column("cat")
    has = present(stated)
    cat, cats = _encoded(stated.fill_null("") if stated.null_count else stated)
    return np.where(has, cat, code + len(cats)).astype(np.int32), cats + kinds


def _encoded(column: pa.Array) -> tuple[Int32, list[str]]:
    """Returns numbers and distinct values of a column of texts without nulls."""
    if not pa.types.is_dictionary(column.type) or column.dictionary.null_count:
        column = column.cast(pa.string()).dictionary_encode()
    return column.indices.to_numpy().astype(np.int32, copy=False), column.dictionary.to_pylist()


def _lanes(events: Batch) -> Int64:
    result: Int64 = events.column("lane").fill_null(0).to_numpy().astype(np.int64)
    return result


def _bools(column: pa.BooleanArray) -> Bools:
    result: Bools = column.to_numpy(zero_copy_only=False)
    return result


def _where(mask: Bools, text: str) -> pa.DictionaryArray:
    """The text where the mask is true, else null."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(mask), np.int32), mask=~mask), [text.encode()])


def _by_row(texts: pa.BinaryArray, row: Int32, rows: int) -> pa.BinaryArray:
    """Joins texts of ascending rows to one per row, null if there is none."""
    first = np.flatnonzero(np.diff(row, prepend=-1))
    if len(first) < len(row):
        offsets = pa.array(np.append(first, len(row)).astype(np.int32))
        texts = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), pa.scalar(b"", pa.binary()))
    at = np.full(rows, -1, np.int64)
    at[row[first]] = np.arange(len(first))
    return texts.take(pa.array(at, mask=at < 0))
