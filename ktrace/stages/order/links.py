"""Links, each one end of an arrow: numbered by their key, and attached to the event or slice that they mean.

Ends are attached by a link of the source, or because a call launched device work: correlation within a process tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int32, Int64, Structured, UInt8
from ktrace.model.batch import TRACK_COLUMNS, Batch, arrow_schema
from ktrace.model.tracks import Track
from ktrace.stages.order.nesting import Slices
from ktrace.store import BatchSpool, Runs, Spill, ranges
from ktrace.store.events import BATCH_ROWS, GONE, LAUNCHED, EventStore, Tally, values
from ktrace.store.joins import find, group_start_mask
from ktrace.store.launches import Correlated, find_launches
from ktrace.store.vocabulary import Interner, TrackIndex, Vocabularies

#: What an arrow means; "launch" leads from a call to the device work that it launched.
ARROW_KINDS = ("launch", "flow", "fwdbwd", "wait", "event", "async", "capture")


def new_ends(spill: Spill) -> Runs:
    """An empty store for ends: ts and place of the event, number of the arrow, place of the other end (-1: none, or
    not known yet), kind, whether the arrow leaves there, whether it is a link, whether it is the last of its arrow
    (`find_last`)."""
    numbers = [("ts", "i8"), ("place", "i8"), ("arrow", "i8"), ("peer", "i8")]
    return Runs(spill, "ends", [*numbers, ("kind", "u1"), ("out", "?"), ("link", "?"), ("last", "?")])


def find_peers(ends: Runs, spill: Spill, size: int) -> None:
    """Sets `peer` and `last` of the ends of links.

    The peer of an arrival is the departure, that of a departure the first arrival. `last` of an arrival is whether the
    arrow doesn't arrive at the next time at which it has an end.
    """
    rows = ends.rows
    located = Runs(spill, "peers", [("arrow", "i8"), ("ts", "i8"), ("place", "i8"), ("index", "i8"), ("out", "?")])
    for start, part in ends.blocks(size):
        index = np.flatnonzero(part["link"])
        columns = {name: part[name][index] for name in ("arrow", "ts", "place", "out")}
        located.append(index=start + index, **columns)
    for part in located.parts(size):
        ordered = part[np.lexsort((part["ts"], part["arrow"]))]
        for out in (True, False):
            theirs, ours = ordered[ordered["out"] == out], ordered[ordered["out"] != out]
            first = theirs[group_start_mask((theirs["arrow"],))] if len(theirs) else theirs
            place = find((ours["arrow"],), (first["arrow"],))
            rows["peer"][ours["index"][place >= 0]] = first["place"][place[place >= 0]]
        last: Bools = _no_later_arrival(ordered) & ~ordered["out"]
        rows["last"][ordered["index"]] = last


def _no_later_arrival(ends: Structured) -> Bools:
    """Whether the arrow doesn't arrive at its next ts, for each of its ends; these are sorted by arrow and ts."""
    start = np.flatnonzero(group_start_mask((ends["arrow"], ends["ts"])))
    arrives = np.logical_or.reduceat(~ends["out"], start)
    same = ends["arrow"][start[1:]] == ends["arrow"][start[:-1]]
    none = np.append(~(same & arrives[1:]), True)
    return np.repeat(none, np.diff(np.append(start, len(ends))))


def find_last(ends: Structured) -> Bools:
    """Which ends on the rows of a range, as `on_rows` returns them, are arrivals without a later arrival before the
    arrow leaves again. For ends at the same time the order of the rows decides."""
    last: Bools = ends["last"].copy()
    links = np.flatnonzero(ends["link"])
    links = links[np.argsort(ends["arrow"][links], kind="stable")]
    here, then = links[:-1], links[1:]
    tied = (ends["arrow"][here] == ends["arrow"][then]) & (ends["ts"][here] == ends["ts"][then])
    here, then = here[tied], then[tied]
    out: Bools = ends["out"]
    last[here] = out[then] & ~out[here]
    return last


def on_rows(ends: Runs, low: int | None, high: int | None, places: Int64) -> tuple[Int32, Structured]:
    """The rows and the ends on the events at `places`, whose ts are from `low` to below `high`."""
    in_range = ends.rows[ends.between(low, high)]
    if not len(in_range):
        return np.empty(0, np.int32), in_range
    places = np.ascontiguousarray(places)
    first = int(places.min())
    rows = np.empty(int(places.max()) - first + 1, np.int32)  # only the entries that are used are ever written
    rows[places - first] = np.arange(len(places), dtype=np.int32)
    row = rows[in_range["place"] - first]
    by_row = np.argsort(row, kind="stable")
    row, in_range = row[by_row], in_range[by_row]
    if np.any(row[1:] == row[:-1]):
        by_row = np.lexsort((in_range["out"], in_range["arrow"], row))
        row, in_range = row[by_row], in_range[by_row]
    return row, in_range


#: What tells where an end belongs: nothing, the id of an event, the slice around its time, the next slice.
NOTHING, EVENT, ENCLOSING, NEXT = range(4)

_OWN = [("arrow", "i8"), ("id", "i8"), ("kind", "u1"), ("out", "?")]
_USED = ("id", "ts", "event", "key")


class LinkStore:
    """Keeps links: as they came, and as rows of the numbers that a timeline needs.

    After `number_arrows` they are in `by_event`, `enclosed` and `next`, depending on what they are attached by.
    """

    def __init__(self, spill: Spill, words: Vocabularies) -> None:
        self._words = words
        self._tracks = TrackIndex(words)
        self._pending: list[pa.RecordBatch] = []
        self._whole: list[pa.RecordBatch] = []
        self._rows = BatchSpool(spill, "link_rows")
        self._keyed = Runs(
            spill,
            "links",
            [("digest", "i8"), ("rest", "i8"), ("event", "i8"), ("ts", "i8"), ("by", "u1"), ("track", "i4"), *_OWN[1:]],
        )
        self.by_event = Runs(spill, "by_event", [("event", "i8"), ("source", "i4"), *_OWN])
        self.enclosed = Runs(spill, "enclosed", [("ts", "i8"), ("track", "i4"), *_OWN])
        self.next = Runs(spill, "next", [("ts", "i8"), ("track", "i4"), *_OWN])
        self.unbound = Tally()

    def __len__(self) -> int:
        return len(self._keyed)

    def add(self, batch: Batch) -> None:
        """Keeps the links of a batch."""
        if not len(batch):
            return
        self._pending.append(self._used(batch))
        columns = batch.full()
        names = columns.schema.names
        self._whole.append(
            columns.select([name for name in names if columns.column(name).null_count < columns.num_rows])
        )
        if sum(part.num_rows for part in self._pending) >= BATCH_ROWS:
            self.flush()

    def _used(self, batch: Batch) -> pa.RecordBatch:
        """The columns that are needed here, with the types of the model and numbers for words."""
        columns = {}
        for field in arrow_schema("links"):
            if field.name not in (*_USED, *TRACK_COLUMNS, "link", "role", "bind"):
                continue
            columns[field.name] = self._words.encode(field.name, batch.column(field.name), field.type)
        return pa.RecordBatch.from_pydict(columns)

    def flush(self) -> None:
        """Keeps the links that still wait to be joined with others."""
        if not self._pending:
            return
        columns = pa.Table.from_batches(self._pending).combine_chunks().to_batches()[0]
        self._pending.clear()
        tables = [pa.Table.from_batches([part]) for part in self._whole]
        whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
        self._rows.append(whole.combine_chunks().to_batches()[0])
        self._whole.clear()
        ts, has_ts = values(columns, "ts")
        event, has_event = values(columns, "event")
        is_next = self._is(columns, "bind", "next")
        place = np.where(has_ts, np.where(is_next, NEXT, ENCLOSING), NOTHING)
        digest = self._digests(columns)
        self._keyed.append(
            digest=digest[:, 0],
            rest=digest[:, 1],
            event=event,
            ts=ts,
            by=np.where(has_event, EVENT, place),
            id=columns.column("id").to_numpy(),
            track=self._tracks.index(columns),
            kind=self._kinds(columns),
            out=self._is(columns, "role", "out"),
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields all links as they came, without columns that are all null, some thousand rows at a time."""
        return map(self._rows.get, range(len(self._rows)))

    def _is(self, columns: pa.RecordBatch, name: str, word: str) -> Bools:
        return self._words[name].where(columns.column(name), word.__eq__)

    def _kinds(self, columns: pa.RecordBatch) -> UInt8:
        """Indices into ARROW_KINDS; a kind that another package adds is a flow."""
        kinds = np.full(columns.num_rows, ARROW_KINDS.index("flow"), np.uint8)
        for number, word in enumerate(ARROW_KINDS):
            kinds[self._is(columns, "link", word)] = number
        return kinds

    def _digests(self, columns: pa.RecordBatch) -> Int64:
        """A hash of (source, link, key) for each row; with 128 bits two arrows never share one in practice.

        Arrows from captured calls may lead to another source.
        """
        from hashlib import blake2b  # 2 ms, and few inputs have such links

        source, link = (self._words[name].decode(columns.column(name)).cast(pa.string()) for name in ("source", "link"))
        source = pc.if_else(pc.equal(link, "capture"), "", source)
        joined = pc.binary_join_element_wise(source, link, columns.column("key"), "\0").dictionary_encode()
        digests = b"".join(blake2b(text.encode(), digest_size=16).digest() for text in joined.dictionary.to_pylist())
        result: Int64 = np.frombuffer(digests, np.int64).reshape(-1, 2)[joined.indices.to_numpy()]
        return result

    def number_arrows(self, first: int, tracks: TrackIndex, size: int) -> None:
        """Numbers the arrows from `first` on, and sorts their ends by what they are attached by.

        `tracks` are those of the events.
        """
        source, track = self._tracks.sources(), self._tracks.among(tracks)
        for part in self._keyed.parts(size):
            rows = part[np.lexsort((part["id"], part["rest"], part["digest"]))]
            arrow = first - 1 + np.cumsum(group_start_mask((rows["digest"], rows["rest"])))
            first = int(arrow[-1]) + 1
            columns = {name: rows[name] for name in ("event", "ts", "id", "kind", "out")}
            of_track = rows["track"]
            columns |= {"arrow": arrow, "source": source[of_track], "track": track[of_track]}
            for by, ends in ((EVENT, self.by_event), (ENCLOSING, self.enclosed), (NEXT, self.next)):
                which = rows["by"] == by
                ends.append(**{name: columns[name][which] for name in ends.fields})
            self.unbound.add(rows["id"][rows["by"] == NOTHING].tolist())


def attach_by_event(
    links: LinkStore, store: EventStore, pairs: Runs, ends: Runs, spill: Spill, source: Int32, size: int
) -> None:
    """Attaches the ends that name an event. The id of a pair's end names the pair.

    `source` is the number of the source of each track of the events.
    """
    if not len(links.by_event):
        return
    events = _events_by_id(store, pairs, spill, size)
    keys = store.keys.rows
    for low, high in ranges(sorted({*events.cuts(size), *links.by_event.cuts(size)})):
        rows = links.by_event.rows[links.by_event.between(low, high)]
        if not len(rows):
            continue
        by_id = events.rows[events.between(low, high)]
        by_id = by_id[np.argsort(by_id["place"], kind="stable")]
        match = find((rows["event"], rows["source"]), (by_id["id"], source[by_id["track"]]))
        attached = match >= 0
        place = by_id["place"][match[attached]]
        columns = {name: rows[name][attached] for name in ("arrow", "kind", "out")}
        ends.append(ts=keys["ts"][place], place=place, peer=-1, link=True, last=False, **columns)
        links.unbound.add(rows["id"][~attached].tolist())


def _events_by_id(store: EventStore, pairs: Runs, spill: Spill, size: int) -> Runs:
    events = Runs(spill, "events_by_id", [("id", "i8"), ("place", "i8"), ("track", "i4")])
    for start, keys in store.keys.blocks(size):
        here = np.flatnonzero(keys["flags"] & GONE == 0)
        events.append(id=keys["id"][here], place=start + here, track=keys["track"][here])
    for _, pair in pairs.blocks(size):
        events.append(
            id=store.keys.rows["id"][pair["end"]], place=pair["begin"], track=store.keys.rows["track"][pair["end"]]
        )
    return events


class SliceAttacher:
    """Attaches ends to slices by time and track, one range of time after another.

    `tracks` tells for each track whether any end is attached on it.
    """

    def __init__(self, links: LinkStore, ends: Runs, tracks: int) -> None:
        self.tracks = np.zeros(tracks, np.bool_)
        for runs in (links.enclosed, links.next):
            track = runs.rows["track"]
            self.tracks[track[track >= 0]] = True
        self._links = links
        self._ends = ends
        self._waiting = np.empty(0, links.next.rows.dtype)

    def attach(self, slices: Slices, low: int | None, high: int | None) -> None:
        """Attaches the ends with low <= ts < high, and earlier ones that wait for the next slice."""
        enclosed = self._links.enclosed
        rows = enclosed.rows[enclosed.between(low, high)]
        if len(rows):
            self._attach(rows, slices, slices.innermost(rows["track"], rows["ts"]))
        later = self._links.next
        rows = np.concatenate([self._waiting, later.rows[later.between(low, high)]])
        if len(rows):
            next_slice = slices.next(rows["track"], rows["ts"])
            self._waiting = rows[next_slice < 0]
            self._attach(rows[next_slice >= 0], slices, next_slice[next_slice >= 0])

    def close(self) -> None:
        """Counts the ends that no slice followed as unbound."""
        self._links.unbound.add(self._waiting["id"].tolist())

    def _attach(self, rows: Structured, slices: Slices, index: Int64) -> None:
        attached = index >= 0
        at = index[attached]
        columns = {name: rows[name][attached] for name in ("arrow", "kind", "out")}
        self._ends.append(ts=slices.begin[at], place=slices.place[at], peer=-1, link=True, last=False, **columns)
        self._links.unbound.add(rows["id"][~attached].tolist())


def join_launches(store: EventStore, tracks: list[Track], ends: Runs, size: int) -> int:
    """Joins launches with their work by correlation, and returns how many arrows this made. Flags the work."""
    process = Interner().numbers((track.source, track.host, track.pid) for track in tracks).astype(np.int32)
    machine = Interner().numbers((track.source, track.host) for track in tracks).astype(np.int32)
    has_process = np.array([track.pid is not None for track in tracks], np.bool_)
    keys, arrows = store.keys.rows, 0
    for part in store.correlated.parts(size):
        rows = part[keys["flags"][part["place"]] & GONE == 0]
        launches, works = rows[rows["launch"]], rows[~rows["launch"]]
        if np.any(works["correlation"][1:] <= works["correlation"][:-1]):
            works = works[np.lexsort((*_first_and_longest(keys, works["place"]), works["correlation"]))]
        launch = find_launches(
            _correlated(works, process, machine, has_process),
            _correlated(launches, process, machine, has_process),
            partial(_first_and_longest, keys, launches["place"]),
            partial(_begins, keys, works["place"]),
        )
        joined = np.flatnonzero(launch >= 0)
        arrow = arrows + 1 + np.arange(len(joined))
        arrows += len(joined)
        calls, started = launches["place"][launch[joined]], works["place"][joined]
        keys["flags"][started] |= LAUNCHED
        for place, peer, out in ((calls, started, True), (started, calls, False)):
            columns = {"place": place, "arrow": arrow, "peer": peer, "kind": 0, "out": out}
            ends.append(ts=keys["ts"][place], **columns, link=False, last=not out)
    return arrows


def _correlated(rows: Structured, process: Int32, machine: Int32, has_process: Bools) -> Correlated:
    track = rows["track"]
    correlation = np.ascontiguousarray(rows["correlation"])
    return Correlated(correlation, process[track], machine[track], has_process[track], track)


def _begins(keys: Structured, places: Int64) -> Int64:
    begin: Int64 = keys["ts"][places]
    return begin


def _first_and_longest(keys: Structured, places: Int64) -> tuple[Int64, ...]:
    """Columns that sort events by ts, then the longest first, then by track and id."""
    keys = keys[places]
    return keys["id"], keys["track"], -keys["end"], keys["ts"]
