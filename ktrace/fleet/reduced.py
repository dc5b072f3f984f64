"""A rank as small tables: the times of its steps, and what it did together with other ranks.

    rank3.json.gz ──► one worker ──► steps        step #7   12.1 ms, compute 9.8, exposed communication 1.9, idle 0.4
                                     collectives  key of the one that other ranks have too, step, duration, bytes
                                     facts        rank, host, device, stage of the pipeline

Nothing in it needs the clock of another rank. `ktrace.fleet.together` joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.breakdown import steps_or_recording
from ktrace.analysis.questions.collectives.found import CollectiveKind, CollectiveTable, build_table
from ktrace.analysis.questions.collectives.rows import COLUMNS as OF_COLLECTIVES
from ktrace.analysis.questions.collectives.rows import CollectiveRows, Facts
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY
from ktrace.analysis.work.gather import COLUMNS, WorkInput
from ktrace.analysis.work.occurrences import DeviceSteps, labels_of_steps
from ktrace.analysis.work.stored_columns import by_source
from ktrace.errors import DamagedInput, InputError
from ktrace.input.dataset_manifest import DatasetPlace
from ktrace.model.arrays import AnyArray, Bools, Int64
from ktrace.naming.taxonomy import taxonomy
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.stages.select.intervals import Intervals
from ktrace.stages.select.wanted import step_of
from ktrace.store import SPILL_BYTES, Spill
from ktrace.store.joins import combined, distinct, group_start_mask, positions

#: The times of a step, in the order of the rows of `RankTable.times`; all but the first and the last add up to it.
SPAN, EXPOSED, COMPUTED, COPIES, IDLE, BETWEEN_STAGES = range(6)

#: What is kept of each collective: the number that it has on all ranks (0: none), its kind and step (-1: none), its
#: duration, the part without compute, the bytes that it moves, sends and receives (-1: not known).
ROW = np.dtype(
    [("key", "u8"), ("kind", "i4"), ("step", "i4"), ("dur", "i8"), ("exposed", "i8")]
    + [(name, "i8") for name in ("size", "sent", "received")]
)


class Kind(msgspec.Struct, frozen=True):
    """What collectives of a rank have in common; of a transfer between two ranks `pair` are these."""

    operation: str
    group: str
    ranks: int | None
    members: str
    waits: bool
    pair: tuple[int, int] | None = None


class Stage(msgspec.Struct, frozen=True):
    """The stage of a pipeline that a rank is, of so many.

    `micro` are the micro-batches of a step, None where they aren't known; `wraps` says that the last stage also sends
    to the first, as in interleaved schedules.
    """

    number: int
    stages: int
    micro: int | None
    wraps: bool


class RankTable(msgspec.Struct):
    """A device of an input. `steps` are the numbers of its steps, None of a recording without; `times` (6, steps) and
    `rows` are arrays as bytes, times in ns. `world` is the number of ranks that the job has.
    """

    path: str
    label: str
    rank: int | None
    host: str | None
    device: int | None
    model: str | None
    world: int | None
    steps: list[int] | None
    times: bytes = b""
    kinds: list[Kind] = msgspec.field(default_factory=list)
    rows: bytes = b""
    stage: Stage | None = None
    events: int = 0
    issues: dict[str, int] = msgspec.field(default_factory=dict)

    def step_times(self) -> Int64:
        """The times of steps, ns, (6, steps)."""
        return np.frombuffer(self.times, np.int64).reshape(6, -1)

    def collectives(self) -> AnyArray:
        """The collectives, as records of `ROW`."""
        return np.frombuffer(self.rows, ROW)


def packed(tables: Sequence[RankTable]) -> bytes:
    """The tables of an input as bytes."""
    packed_bytes: bytes = pa.compress(data := msgspec.msgpack.encode(tables), "zstd", asbytes=True)
    return len(data).to_bytes(8, "little") + packed_bytes


def unpacked(data: bytes, name: str) -> list[RankTable]:
    """The tables of an input. Raises DamagedInput for bytes that aren't what `packed` makes."""
    try:
        size = int.from_bytes(data[:8], "little")
        if size > MOST_BYTES:
            raise ValueError(f"{size:,} bytes")
        whole = pa.decompress(data[8:], size, "zstd", asbytes=True)
        tables = msgspec.msgpack.decode(whole, type=list[RankTable])
        for table in tables:
            rows, steps = table.collectives(), len(table.steps or [0])
            limits = ((rows["kind"], 0, len(table.kinds)), (rows["step"], -1, steps))
            fits = all(not len(rows) or (low <= one.min() and one.max() < high) for one, low, high in limits)
            if table.step_times().shape[1] != steps or not fits:
                raise ValueError("its parts don't fit each other")
    except (ValueError, OSError, msgspec.DecodeError) as error:
        raise DamagedInput(
            f"isn't what `ktrace batch --fleet` writes: {error}", path=name,
            remedy="remove that file and run the same command again",
        ) from None  # fmt: skip
    return tables


#: No tables of an input are larger than that.
MOST_BYTES = 1 << 30


def reduce_input(path: str, place: DatasetPlace, selection: Selection) -> list[RankTable]:
    """Reads an input once; returns the table of each of its devices.

    Raises InputError if it can't be read or has no device work.
    """
    report, spill = Report(), Spill(SPILL_BYTES)
    batches = read_selected(
        [path], report, selection.replace(classify=True, jobs=1), columns=COLUMNS | OF_COLLECTIVES, replays=False
    )
    try:
        gathered = WorkInput(taxonomy(selection.rules), spill, is_classified=True)
        collectives = CollectiveRows(spill)
        events = 0
        for batch in by_source(pair_halves(batches, report)):
            if batch.record == "events" and len(batch):
                collectives.add(batch)
                events += len(batch)
            gathered.collect_host(batch)
            gathered.collect_work(batch)
        report.require_balance()
        work = Work.of_devices(gathered)
        if not len(work):
            raise InputError(
                "there is no device work with times", path=path, expected="a trace of kernels",
                remedy="ktrace info shows what it contains; name other files",
            )  # fmt: skip
        issues = {kind: issue.rows for kind, issue in report.issues.items()}
        table = build_table(collectives, work) if len(collectives) else None
        return [*_tables(path, place, work, table, collectives.facts, events, issues)]
    finally:
        spill.close()


def _tables(
    path: str, place: DatasetPlace, work: Work, table: CollectiveTable | None, facts: Sequence[Facts], events: int,
    issues: dict[str, int],
) -> Iterator[RankTable]:  # fmt: skip
    labels, number = labels_of_steps(work.gathered)
    numbers = [step_of(label) or 0 for label in labels] if (number >= 0).any() else None
    catalog = work.gathered.catalog
    for of_source in work.each():
        source = of_source.source
        for rows, which in zip(of_source.rows_of_devices, of_source.places[1].tolist(), strict=True):
            _, host, device = work.devices[which]
            ends = int(of_source.ts[rows[0]]), int((of_source.ts + of_source.dur)[rows].max())
            steps = steps_or_recording(work, of_source, rows, ends)
            if not len(steps.begin):
                continue
            of_device = _of_device(table, source, device, of_source)
            times, exposed = _step_times(of_source, rows, steps, len(labels) or 1, of_device.between)
            here = np.flatnonzero(times[SPAN] > 0)
            rank = catalog.rank(source)
            recorded = catalog.get("source", source=source)
            world = recorded.facts.get("world_size") if recorded else None
            made = RankTable(
                path,
                source,
                place.rank if rank is None else rank,
                host or catalog.host(source) or place.host,
                device,
                catalog.model(source, device),
                world if type(world) is int else None,
                None if numbers is None else [numbers[step] for step in here.tolist()],
                events=events,
                issues=issues,
            )
            if table is not None:
                _add_collectives(made, table, of_device, facts, steps, exposed, here)
            made.times = np.ascontiguousarray(times[:, here]).tobytes()
            yield made


class _OfDevice(NamedTuple):
    """The collectives of a device: their rows in the table and in the source; which work there is between two ranks."""

    rows: Int64
    events: Int64
    between: Bools


def _of_device(table: CollectiveTable | None, source: str, device: int | None, events: Events) -> _OfDevice:
    between = np.zeros(len(events), np.bool_)
    if table is None:
        return _OfDevice(events.ids[:0], events.ids[:0], between)
    on_device = np.array([(one.source, one.device) == (source, device) for one in table.ranks], np.bool_)
    rows = np.flatnonzero(on_device[table.rank])
    order = np.argsort(events.ids, kind="stable")
    at = positions(table.id[rows], events.ids[order])
    rows, at = rows[at >= 0], order[at[at >= 0]]
    between[at] = ~table.of_kinds([kind.joint for kind in table.kinds])[rows]
    return _OfDevice(rows, at, between)


def _step_times(events: Events, rows: Int64, steps: DeviceSteps, count: int, between: Bools) -> tuple[Int64, Int64]:
    """The times of each step, (6, steps), and what of each row of the source is exposed communication.

    What runs at the same time counts once: as compute, else as a collective, else as what ranks send to each other; of
    these as the piece that began first.
    """
    times, exposed = np.zeros((6, count), np.int64), np.zeros(len(events), np.int64)
    np.add.at(times[SPAN], steps.label, steps.end - steps.begin)
    begin, end, role = events.ts[rows], (events.ts + events.dur)[rows], events.roles[rows]
    sends = between[rows]
    parts = (
        (role == COMPUTE, COMPUTED),
        ((role == COMMUNICATION) & ~sends, EXPOSED),
        ((role == COMMUNICATION) & sends, BETWEEN_STAGES),
        (role == COPY, COPIES),
    )
    covered = Intervals.union(begin[:0], end[:0])
    for chosen, part in parts:
        ts, stop = begin[chosen], end[chosen]
        reached = np.maximum.accumulate(stop)
        since = np.maximum(ts, np.append(ts[:1], reached[:-1]))
        lasts = np.flatnonzero(stop > since)
        row, step, at, until = steps.clip(since[lasts], stop[lasts])
        alone = until - at - (covered.until(until) - covered.until(at))
        np.add.at(times[part], steps.label[step], alone)
        if part in (EXPOSED, BETWEEN_STAGES):
            np.add.at(exposed, rows[np.flatnonzero(chosen)[lasts[row]]], alone)
        covered = Intervals.union(np.append(covered.begin, ts), np.append(covered.end, stop))
    times[EXPOSED] += times[BETWEEN_STAGES]
    times[IDLE] = times[SPAN] - times[COMPUTED] - times[EXPOSED] - times[COPIES]
    return times, exposed


def _add_collectives(
    made: RankTable, table: CollectiveTable, of_device: _OfDevice, facts: Sequence[Facts], steps: DeviceSteps,
    exposed: Int64, here: Int64,
) -> None:  # fmt: skip
    """Adds the collectives of a device and their kinds. Steps are numbered as those in `here`."""
    rows = of_device.rows
    records = np.zeros(len(rows), ROW)
    around = steps.around(table.own[rows])
    step = np.where(around >= 0, steps.label[around], -1)
    records["step"] = np.where(step >= 0, positions(step, here), -1)
    records["dur"], records["size"], records["exposed"] = table.dur[rows], table.size[rows], exposed[of_device.events]
    numbers: dict[Kind, int] = {}
    kinds: list[tuple[CollectiveKind, Kind]] = []
    fact, which = np.unique(
        table.fact[rows].astype(np.int64) * len(table.kinds) + table.kind[rows], return_inverse=True
    )
    values = np.zeros((len(fact), 3), np.int64)
    for place, code in enumerate(fact.tolist()):
        stated, kind = facts[code // len(table.kinds)], table.kinds[code % len(table.kinds)]
        one = _kind(kind, stated)
        if one not in numbers:
            numbers[one] = len(numbers)
            kinds.append((kind, one))
        values[place] = numbers[one], *(-1 if size is None else size for size in (stated.sent, stated.received))
    records["kind"], records["sent"], records["received"] = values[which].T if len(rows) else values.T[:, :0]
    records["key"] = _keys(kinds, records, table.seq[rows], made.steps, table.own[rows])
    made.kinds, made.rows = [one for _, one in kinds], records.tobytes()
    made.stage = _stage(made.rank, kinds, records, len(here))


def _kind(kind: CollectiveKind, stated: Facts) -> Kind:
    between = stated.pair if not kind.joint else None
    operation = "send and receive" if between else kind.operation
    ranks = 2 if between else kind.ranks
    return Kind(operation, kind.group, ranks, stated.members or "", kind.waits, between)


def _keys(
    kinds: Sequence[tuple[CollectiveKind, Kind]], records: AnyArray, seq: Int64, steps: list[int] | None, ts: Int64
) -> AnyArray:
    """A number for each collective that it has on all ranks; 0 where nothing tells which one it is.

    It is made of the group and the sequence number, else of the group, the step, the size, and the place among these.
    """
    texts = [f"{one.operation} {one.pair or kind.key}".encode("utf-8", "surrogatepass") for kind, one in kinds]
    numbers = [int.from_bytes(blake2b(text, digest_size=8).digest(), "little") | 1 for text in texts]
    bases = [
        number if one.pair or kind.key is not None else 0 for number, (kind, one) in zip(numbers, kinds, strict=True)
    ]
    base = np.array([*bases, 0], np.uint64)[records["kind"]]
    of_pair = np.array([*(one.pair is not None for _, one in kinds), False], np.bool_)[records["kind"]]
    by_number = (seq >= 0) & ~of_pair
    step = np.array([*(steps or ()), -1], np.int64)[records["step"]]
    is_one = (base != 0) & (by_number | (step >= 0))
    parts = (np.where(by_number, seq, records["size"]), np.where(by_number, 0, step + 2))
    coded = [np.unique(part, return_inverse=True) for part in parts]
    columns = [(code, len(values)) for values, code in coded]
    codes, size = combined([(records["kind"].astype(np.int64), len(kinds)), *columns], len(records))
    _, group = distinct(codes, size)
    nth = _nth(group, ts)
    key = base
    for part in (*parts, nth, by_number.astype(np.int64)):
        key = _mixed(key ^ part.astype(np.uint64))
    return np.where(is_one, key | np.uint64(1), np.uint64(0))


def _nth(group: Int64, ts: Int64) -> Int64:
    """The place of each row within its group by time, from 0."""
    order, row = np.lexsort((ts, group)), np.arange(len(group))
    nth = np.empty(len(group), np.int64)
    nth[order] = row - np.maximum.accumulate(np.where(group_start_mask([group[order]]), row, 0))
    return nth


def _mixed(numbers: AnyArray) -> AnyArray:
    """Other numbers, in which each bit depends on all bits (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    mixed: AnyArray = numbers ^ (numbers >> np.uint64(31))
    return mixed


def members_of(text: str) -> list[int] | None:
    """The ranks of a group as its text lists them, None where it doesn't or leaves some out."""
    try:
        members: list[int] = msgspec.json.decode(text, type=list[int])
    except msgspec.DecodeError:
        return None
    return members


def _stage(
    rank: int | None, kinds: Sequence[tuple[CollectiveKind, Kind]], records: AnyArray, steps: int
) -> Stage | None:
    """The stage of a pipeline that a rank is: its place in the group in which it sends to the next and the previous."""
    pairs = {at: one for at, (_, one) in enumerate(kinds) if one.pair is not None and rank in one.pair}
    groups = {one.members for one in pairs.values()}
    members = members_of(groups.pop()) if len(groups) == 1 else None
    if members is None or rank not in members or len(members) < 2:
        return None
    place, last = members.index(rank), len(members) - 1
    received = {members.index(one.pair[0]): at for at, one in pairs.items()
                if one.pair and one.pair[1] == rank and one.pair[0] in members}  # fmt: skip
    wraps = any({*one.pair} == {members[0], members[last]} for one in pairs.values() if one.pair) and last > 1
    of = received.get(place - 1 if place else 1)
    count = int(np.count_nonzero((records["kind"] == of) & (records["step"] >= 0))) if of is not None else 0
    micro = count // steps if steps and count and count % steps == 0 else None
    return Stage(place, len(members), micro, wraps)
