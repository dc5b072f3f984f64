"""Memory: how much was allocated and reserved at most, when, and who held it.

The question of `ktrace summary --by memory`, and what the greatest owners hold as counters for `--explain memory`;
`answer` has its figures as tables, `stated` what the source itself adds up.

    thread   [ nn.Module: Attention_3                  ]
                [ aten::matmul                ]
                   [ aten::bmm       ]
    memory            + 2 MB (address 1)       ...  - 2 MB (address 1)      held by Attention_3, aten::matmul

An allocation belongs to the innermost module around it on its thread, and to the outermost operator in that; where
there are no modules to the outermost operator. It is held until its address is freed. What is allocated altogether is
what the source says (counters), else the sum from the first allocation on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.questions.memory.answer import MemoryAnswer, MemoryOwner, MemoryUse, StepMemory
from ktrace.analysis.questions.memory.stated import Snapshots, of_categories
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.occurrences import Occurrences
from ktrace.analysis.work.question import Answer, Explanation, Labels
from ktrace.analysis.work.spans import KINDS, MODULE, Ranges, grouped, innermost
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Bools, Int32, Int64, to_int64
from ktrace.model.batch import TRACK_COLUMNS, Batch, arrow_schema
from ktrace.model.masks import NameTest, present, words_in
from ktrace.model.tracks import natural
from ktrace.naming.frames import owner_of
from ktrace.stages.select.wanted import step_of
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.store.joins import group_start_mask, positions
from ktrace.store.vocabulary import RowKeys

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"bytes", "args", "tid"})


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question where memory went."""
    return Memory(spill)


#: The name of the question, as `--by` takes it.
NAME = "memory"

#: How the sources call the address of an allocation, and the kind of memory.
_ADDRESS, _KIND = ("Addr", "addr", "address"), "memKind"

#: What else an allocation may state.
_ABOUT = ("category", "stack")

#: Where an allocation was made: the columns of its place, and those of its thread.
_PLACE, _THREAD = ("host", "pid", "device"), TRACK_COLUMNS[:4]

#: What PyTorch's snapshots call memory that the allocator reserves.
_RESERVES = "segment_"

#: Series of counters that tell totals.
_TOTALS = ("allocated", "reserved")

#: The track of counters of categories, as PyTorch's memory timelines have them.
_CATEGORIES = "memory"

#: How many owners have a series of their own in `--explain memory`.
_SERIES = 8

_NONE = -1


class Memory:
    """The question where memory went."""

    spans = True

    def __init__(self, spill: Spill) -> None:
        self._rows = StoredColumns(
            spill, "allocations", ts="i8", bytes="i8", id="i8", thread="i4", place="i4", address="i4", about="i4"
        )
        self._totals = StoredColumns(spill, "totals", parent="i8", ts="i8", value="i8", place="i4", series="i1")
        self._parts = StoredColumns(spill, "categories", ts="i8", value="i8", category="i4")
        self._threads, self._places = RowKeys(_THREAD), RowKeys((*_PLACE, _KIND))
        self._devices, self._categories = RowKeys(_PLACE), RowKeys(("name",))
        self._snapshots = Snapshots()
        self._addresses, self._about = RowKeys(("address",)), RowKeys(_ABOUT)

    def see(self, batch: Batch) -> None:
        """Collects the allocations and the counters of totals among the events of one source."""
        if batch.record == "summaries":
            self._snapshots.see(batch)
        if batch.record != "events" or not len(batch):
            return
        self._see_totals(batch)
        allocates = words_in(batch.column("kind"), ("alloc",))
        if not allocates.any():
            return
        size, is_sized = values(batch.columns, "bytes")
        is_memory = ~NameTest(lambda name: name.startswith(_RESERVES))(batch.column("name"))
        rows = np.flatnonzero(allocates & is_sized & is_memory)
        if not len(rows):
            return
        at, every = pa.array(rows), np.arange(len(rows))
        there = [name for name in dict.fromkeys((*_PLACE, *_THREAD)) if batch.has(name)]
        columns = {name: batch.column(name).take(at) for name in there}
        columns |= {key: batch.argument(key, at) for key in (_KIND, *_ABOUT)}
        columns["address"] = pc.coalesce(*(batch.argument(key, at) for key in _ADDRESS))
        allocations = Batch("events", pa.RecordBatch.from_pydict(columns))
        self._rows.add(
            source_of(batch),
            ts=batch.column("ts").to_numpy()[rows],
            bytes=size[rows],
            id=batch.column("id").to_numpy()[rows],
            thread=self._threads.number(allocations, every),
            place=self._places.number(allocations, every),
            address=np.where(present(columns["address"]), self._addresses.number(allocations, every), _NONE),
            about=self._about.number(allocations, every),
        )

    def _see_totals(self, batch: Batch) -> None:
        """Collects counters: totals that belong to allocations, and what each category has."""
        counters = words_in(batch.column("kind"), ("counter",))
        if not counters.any():
            return
        source, ts = source_of(batch), batch.column("ts").to_numpy()
        value = batch.column("value").fill_null(0).to_numpy(zero_copy_only=False)
        parent, has_parent = values(batch.columns, "parent")
        for number, series in enumerate(_TOTALS):
            rows = np.flatnonzero(counters & has_parent & words_in(batch.column("name"), (series,)))
            if len(rows):
                place = self._devices.number(batch, rows)
                columns = {"parent": parent[rows], "ts": ts[rows], "value": to_int64(value[rows])}
                self._totals.add(source, **columns, place=place, series=number)
        if batch.has("track"):
            rows = np.flatnonzero(counters & ~has_parent & words_in(batch.column("track"), (_CATEGORIES,)))
            if len(rows):
                category = self._categories.number(batch, rows)
                self._parts.add(source, ts=ts[rows], value=to_int64(value[rows]), category=category)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if the input has allocations, or what categories of memory have over time."""
        uses = [self._use(course, work, labels) for course in self._courses()]
        names = [one["name"] for one in self._categories.all()]
        uses += [
            of_categories(source, self._parts.for_source(source), names, _start(work)) for source in self._parts.sources
        ]
        held = [*self._snapshots.uses({use.source for use in uses}, labels)]
        if not uses and not held:
            return {}
        snapshots = dict.fromkeys(use.source for use in held)
        notes = [f"{source} is a snapshot: its peak is what was held when it was taken." for source in snapshots]
        if any(use.before is None for use in uses):
            notes.append("What was allocated before the trace isn't known: the source has no totals.")
        if any(not use.owners for use in uses):
            notes.append("Who held memory isn't known: the source has no addresses.")
        places = sorted([*uses, *held], key=lambda use: (use.device is None, natural(use.label)))
        return {NAME: MemoryAnswer(places, notes)}

    def explain(self, work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
        """Yields what the greatest owners hold over time, as counters of their devices."""
        for course in self._courses():
            is_owned = (course.rows["bytes"] > 0) & (course.rows["address"] >= 0)
            if is_owned.any():
                yield from _series(course, self._owners(course, work, is_owned), self._places.all()[course.place])

    def _courses(self) -> Iterator[_Course]:
        """Yields the allocations of each place of each source."""
        for source in self._rows.sources:
            rows, totals = self._rows.for_source(source), self._totals.for_source(source)
            for place in np.unique(rows["place"]).tolist():
                order = np.flatnonzero(rows["place"] == place)
                order = order[np.lexsort((rows["id"][order], rows["ts"][order]))]
                columns = {name: column[order] for name, column in rows.items()}
                allocated, reserved = (_stated(columns["id"], totals, series) for series in range(len(_TOTALS)))
                if reserved is None:
                    reserved = self._reserved(place, columns["ts"], totals)
                yield _Course(source, place, columns, allocated, reserved)

    def _reserved(self, place: int, ts: Int64, totals: dict[str, Any]) -> Int64 | None:
        """What is reserved at some rising times, where counters of the place tell it apart from allocations."""
        where = tuple(self._places.all()[place][name] for name in _PLACE)
        numbers = [number for number, one in enumerate(self._devices.all()) if tuple(one.values()) == where]
        rows = np.flatnonzero(np.isin(totals["place"], numbers) & (totals["series"] == _TOTALS.index("reserved")))
        if not len(rows):
            return None
        rows = rows[np.argsort(totals["ts"][rows], kind="stable")]
        at = np.searchsorted(totals["ts"][rows], ts, "right") - 1
        reserved: Int64 = totals["value"][rows[np.maximum(at, 0)]]
        return reserved

    def _reserved_then(self, course: _Course, place: dict[str, Any]) -> Int64 | None:
        """What was reserved after each allocation: without changes in the trace what its snapshot has at the end."""
        if course.reserved is not None or place[_KIND]:
            return course.reserved
        stated = self._snapshots.reserved(course.source, place["host"], place["device"])
        return None if stated is None else np.full(len(course.allocated), stated, np.int64)

    def _use(self, course: _Course, work: Work, labels: Labels) -> MemoryUse:
        rows, allocated, size = course.rows, course.allocated, course.rows["bytes"]
        place, peak = self._places.all()[course.place], int(allocated.argmax())
        is_owned = (size > 0) & (rows["address"] >= 0)
        freed = _freed(rows["address"])
        held, left = is_owned & (np.arange(len(freed)) <= peak) & (freed > peak), is_owned & (freed == len(freed))
        owner = self._owners(course, work, held | left)
        owners = _added(owner, size, held, int(allocated[peak] - size[held].sum()))
        device, reserved = place["device"], self._reserved_then(course, place)
        names = [labels.device((course.source, place["host"], device)) if device is not None else "host"]
        return MemoryUse(
            label=" ".join([*names, *([place[_KIND]] if place[_KIND] else [])]),
            source=course.source,
            device=device,
            peak=int(allocated[peak]),
            peak_at=int(rows["ts"][peak]) - _start(work),
            end=int(allocated[-1]),
            left=int(size[left].sum()) if is_owned.any() else None,
            allocations=int(np.count_nonzero(size > 0)),
            frees=int(np.count_nonzero(size < 0)),
            owners=owners if is_owned.any() else self._by_words(course, work, peak),
            leaks=_added(owner, size, left, 0),
            steps=_steps(course, work),
            times=rows["ts"] - _start(work),
            allocated=allocated,
            reservations=reserved,
            before=int(allocated[0] - size[0]) if course.is_stated else None,
            reserved=None if reserved is None else int(reserved.max()),
            unused=None if reserved is None else int(reserved[peak] - allocated[peak]),
        )

    def _by_words(self, course: _Course, work: Work, peak: int) -> list[MemoryOwner]:
        """What each category, or stack, had allocated and not freed at the peak; empty where none is stated."""
        about = [self._category_and_frame(one, course.source, work) for one in self._about.all()]
        code, size = course.rows["about"][: peak + 1], course.rows["bytes"][: peak + 1]
        sums = np.zeros(len(about), np.int64)
        np.add.at(sums, code, size)
        counts = np.bincount(code[size > 0], minlength=len(about))
        owners = [
            MemoryOwner("", "", *about[number], int(sums[number]), int(counts[number]))
            for number in np.flatnonzero(sums).tolist()
            if any(about[number])
        ]
        return sorted(owners, key=lambda one: -one.bytes)

    def _owners(self, course: _Course, work: Work, chosen: Bools) -> list[_AllocationOwner | None]:
        """Who made each wanted allocation of a course."""
        owners: list[_AllocationOwner | None] = [None] * len(chosen)
        rows = np.flatnonzero(chosen)
        spans = work.gathered.spans.for_source(course.source)
        names = work.gathered.spans.names
        number = {tuple(one.values()): place for place, one in enumerate(work.threads)}
        thread = np.array([number.get(tuple(one.values()), _NONE) for one in self._threads.all()], np.int32)
        module, operator = _owners_at(spans, names, thread[course.rows["thread"][rows]], course.rows["ts"][rows])
        about = [self._category_and_frame(one, course.source, work) for one in self._about.all()]
        for row, one, other in zip(rows.tolist(), module.tolist(), operator.tolist(), strict=True):
            category, frame = about[course.rows["about"][row]]
            inside = names[one].removeprefix(MODULE) if one >= 0 else ""
            owners[row] = _AllocationOwner(inside, grouped(names[other])[0] if other >= 0 else "", category, frame)
        return owners

    @staticmethod
    def _category_and_frame(about: dict[str, Any], source: str, work: Work) -> tuple[str, str]:
        """The category of an allocation, and the frame that stands for its stack."""
        entry = work.gathered.catalog.get("stack", about["stack"], source=source) if about["stack"] else None
        frames = entry.facts.get("frames") if entry else None
        return about["category"] or "", owner_of([*map(str, frames)]) if isinstance(frames, list) else ""


class _AllocationOwner(NamedTuple):
    """Who made an allocation; "" for what isn't known."""

    module: str
    operator: str
    category: str
    frame: str


class _Course:
    """The allocations of a place in order of time, and what is allocated (and reserved) after each."""

    def __init__(
        self, source: str, place: int, rows: dict[str, Any], allocated: Int64 | None, reserved: Int64 | None
    ) -> None:
        self.source, self.place, self.rows = source, place, rows
        self.reserved = reserved if reserved is not None and reserved.any() else None  # the host has none
        self.is_stated = allocated is not None
        self.allocated: Int64 = np.cumsum(rows["bytes"]) if allocated is None else allocated


def _stated(ids: Int64, totals: dict[str, Any], series: int) -> Int64 | None:
    """The total after each allocation as counters state it, None unless all have one."""
    of_series = np.flatnonzero(totals["series"] == series)
    order = of_series[np.argsort(totals["parent"][of_series], kind="stable")]
    place = positions(ids, totals["parent"][order])
    if not len(order) or (place < 0).any():
        return None
    totals_then: Int64 = totals["value"][order[place]]
    return totals_then


def _series(
    course: _Course, owners: Sequence[_AllocationOwner | None], place: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yields the memory of each of the owners that once hold the most, after each of its allocations and frees."""
    numbers: dict[_AllocationOwner, int] = {}
    owner = np.array([_NONE if one is None else numbers.setdefault(one, len(numbers)) for one in owners])
    made = np.flatnonzero(owner >= 0)
    freed = _freed(course.rows["address"])[made]
    gone = freed < len(owner)
    row = np.concatenate([made, freed[gone]])
    size = np.concatenate([course.rows["bytes"][made], -course.rows["bytes"][made[gone]]])
    of = np.concatenate([owner[made], owner[made[gone]]])
    order = np.lexsort((row, of))
    row, size, of = row[order], size[order], of[order]
    held = np.cumsum(size)
    first = np.flatnonzero(group_start_mask((of,)))
    held -= np.repeat(held[first] - size[first], np.diff([*first, len(of)]))
    most = np.maximum.reduceat(held, first)
    names = list(numbers)
    schema = arrow_schema("events")
    for number in np.argsort(-most, kind="stable")[:_SERIES].tolist():
        part = slice(first[number], [*first, len(of)][number + 1])
        name = " ".join(filter(None, names[of[first[number]]])) or "unknown"
        columns = {"ts": pa.array(course.rows["ts"][row[part]]), "value": pa.array(held[part].astype(np.float64))}
        words = {**{key: place[key] for key in _PLACE}, "source": course.source, "kind": "counter", "unit": "B"}
        words |= {"name": f"held by {name}", "track": f"held by {name}", "timing": "derived"}
        for key, value in words.items():
            if value is not None:
                columns[key] = pa.array([value] * (part.stop - part.start), schema.field(key).type)
        yield pa.RecordBatch.from_pydict(columns)


def _start(work: Work) -> int:
    """The start of the trace."""
    return work.gathered.span[0] if work.gathered.span else 0


def _freed(address: Int32) -> Int64:
    """For each row the next one of its address, which frees it; the number of rows where there is none."""
    freed_by = np.full(len(address), len(address), np.int64)
    order = np.lexsort((np.arange(len(address)), address))
    same = (address[order[1:]] == address[order[:-1]]) & (address[order[1:]] >= 0)
    freed_by[order[:-1][same]] = order[1:][same]
    return freed_by


def _owners_at(spans: dict[str, Any], names: Sequence[str], thread: Int32, at: Int64) -> tuple[Int64, Int64]:
    """The names of the innermost module, and of the outermost operator in it, around times on threads; -1 for none."""
    none = np.full(len(at), _NONE, np.int64)
    if not names or not len(at):
        return none, none
    is_module = np.array([name.startswith(MODULE) for name in names], np.bool_)
    is_step = np.array([step_of(name) is not None for name in names], np.bool_)
    relevant = is_module[spans["name"]] | ((spans["kind"] == KINDS.index("op")) & ~is_step[spans["name"]])
    rows = np.flatnonzero(relevant & np.isin(spans["thread"], np.unique(thread)))
    if not len(rows):
        return none, none
    end = np.where(spans["dur"][rows] < 0, np.iinfo(np.int64).max, spans["ts"][rows] + spans["dur"][rows])
    track, begin = spans["thread"][rows], spans["ts"][rows]
    outer = np.append(innermost(track, begin, end), _NONE)
    module = np.append(is_module[spans["name"][rows]], False)
    inside = Ranges(track, begin, end).around(thread, at)
    operator = none.copy()
    while True:
        going = (inside >= 0) & ~module[inside]
        if not going.any():
            break
        operator[going] = inside[going]
        inside = np.where(going, outer[inside], inside)
    name = np.append(spans["name"][rows], _NONE)
    return name[inside].astype(np.int64), name[operator].astype(np.int64)


def _added(owner: Sequence[_AllocationOwner | None], size: Int64, chosen: Bools, rest: int) -> list[MemoryOwner]:
    """What each owner has of these allocations, the greatest first, with the rest that was there before."""
    sums: defaultdict[_AllocationOwner, list[int]] = defaultdict(lambda: [0, 0])
    for row in np.flatnonzero(chosen).tolist():
        one = owner[row]
        assert one is not None
        sums[one][0] += int(size[row])
        sums[one][1] += 1
    owners = [MemoryOwner(*one, held, count) for one, (held, count) in sums.items()]
    owners += [MemoryOwner("", "", "", "", rest, 0)] if rest else []
    return sorted(owners, key=lambda one: (-one.bytes, one.module, one.operator, one.category, one.frame))


def _steps(course: _Course, work: Work) -> list[StepMemory]:
    """The memory of each step on the host."""
    meanings = work.gathered.meanings
    labels = list(dict.fromkeys(one.step for one in meanings if one.step is not None))
    if not labels:
        return []
    number = {label: place for place, label in enumerate(labels)}
    occurrences = work.once(Occurrences)
    ranges = occurrences.ranges(
        course.source, np.array([_NONE if one.step is None else number[one.step] for one in meanings], np.int32)
    )
    ranges = ranges.where(~occurrences.is_device[ranges.track])
    steps: list[StepMemory] = []
    last: int | None = None
    for row in np.argsort(ranges.begin, kind="stable").tolist():
        low, high = np.searchsorted(course.rows["ts"], [ranges.begin[row], ranges.end[row]]).tolist()
        if high == 0:
            continue  # nothing is known yet
        end = int(course.allocated[high - 1])
        peak = int(course.allocated[max(low - 1, 0) : high].max())
        steps.append(StepMemory(labels[ranges.label[row]], peak, end, None if last is None else end - last))
        last = end
    return steps
