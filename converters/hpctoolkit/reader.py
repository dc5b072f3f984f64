"""Reads the traces and the values of a database.

trace.db     thread         a sample: `value` is the time until the next one, in ns
             GPU stream     kernel, memcpy, ...: hpcrun writes where one begins, and idle 1 ns after its end
profile.db   context with something of its own            a summary; those of a metric add up
             context with sums of others alone            a summary `total`
             other scopes of the same context             arguments of the same summary: execution, function, lex_aware
             GKER:COUNT and the like                      `count` of GKER
             summary profile                              folded: statistics of the others
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.stacks import innermost_args
from ktrace.model.arrays import AnyArray, Int64, Structured
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .database import Database, Meta, Stack, opened, stack_of
from .figures import VALUE, Measures, figures, is_whole

#: Placeholders for what a GPU does -> the kind of row, the direction of a copy.
_WORK: dict[str, tuple[str, str | None]] = {
    f"<{runtime} {what}>": work
    for runtime in ("gpu", "omp tgt")
    for what, work in {
        "kernel": ("kernel", None),
        "copy": ("memcpy", None),
        "copyin": ("memcpy", "HtoD"),
        "copyout": ("memcpy", "DtoH"),
        "memset": ("memset", None),
        "sync": ("sync", None),
        "alloc": ("alloc", None),
        "delete": ("alloc", None),
    }.items()
}

_SAMPLE = np.dtype([("ts", "<u8"), ("context", "<u4")])
_INDEX = np.dtype([("context", "<u4"), ("start", "<u8")])

#: Rows of profiles that are made at once, and about how many bytes their paths may have: each has that of its context.
_ROWS, _TEXT = 1 << 14, 64 << 20

#: Frames of stacks that are held, so that those of contexts that come again aren't made again.
_HELD = 1 << 22

_LATEST = (1 << 63) - 1

#: How many identifiers a thread may have; HPCToolkit has eight kinds of them.
_IDENTIFIERS = 64

#: Kinds of identifiers -> the column of their numbers.
_COLUMNS = {
    **{"RANK": "pid", "THREAD": "tid"},
    **{"GPUDEVICE": "device", "GPUCONTEXT": "context", "GPUSTREAM": "stream"},
}

_ALL = stack_of(["[all contexts]"], ["[all contexts]"])


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of traces, then those of profiles, then facts. Raises DamagedInput without a whole `meta.db`."""
    reading = _Reading(Meta(file_in(source, "meta.db")), conversion)
    profiles, traces = file_in(source, "profile.db"), file_in(source, "trace.db")
    with opened(profiles, "prof") as data:
        reading.find_places(data)
    bad = BadFiles(conversion.report)
    if "trace.db" in (source.sample().listing or ()):
        yield from bad.left_out(traces.path, reading.traces(traces))
    yield from bad.left_out(profiles.path, reading.profiles(profiles))
    bad.end()
    yield from reading.facts()


class _Place(NamedTuple):
    """Whose a profile is: the columns of its rows, whether of a GPU, whether of many, what else is known of it."""

    columns: dict[str, Any]
    is_gpu: bool
    is_summary: bool
    facts: dict[str, Any]


class _Runs(NamedTuple):
    """Stretches of a trace line in one context, by their first samples; the last `dur` is unknown if it `is_open`."""

    number: Int64
    context: AnyArray
    ts: Int64
    dur: Int64
    is_open: bool
    samples: int


def _profiles(data: Database) -> range:
    at, count, size = data.fields("QIB", data.section(0))
    return data.places(at, count, size, 0x2C)


class _Reading:
    """What is known of a database while it is read."""

    def __init__(self, meta: Meta, conversion: Conversion) -> None:
        self._meta, self._conversion, self._report = meta, conversion, conversion.report
        self._batches = BatchBuilder(conversion)
        self._measures = Measures(meta)
        self._stacks: dict[int, Stack] = {}
        self._seen, self._held = set[int](), 0
        self._traced: set[int] = set()
        self._places: list[_Place] = []

    def find_places(self, data: Database) -> None:
        """Finds whose each profile is."""
        for at in _profiles(data):
            identity, flags = data.fields("QI", at + 0x20)
            count = data.fields("H", identity)[0] if identity else 0
            if count > _IDENTIFIERS:
                raise data.damaged(f"has {count:,} identifiers of a thread", identity, f"at most {_IDENTIFIERS}")
            ids = [data.fields("BxHIQ", one) for one in data.places(identity + 8, count, 16, 16)]
            self._places.append(self._place(ids, bool(flags & 1)))

    def _place(self, ids: Sequence[tuple[int, ...]], is_summary: bool) -> _Place:
        columns: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        track = []
        for number, flags, logical, physical in ids:
            kind = self._meta.kinds[number] if number < len(self._meta.kinds) else f"kind {number}"
            identifier = physical if flags & 1 else logical
            if kind == "NODE":
                columns["host"] = f"{identifier:x}"
            elif kind in _COLUMNS:
                columns[_COLUMNS[kind]] = logical
            elif kind == "CORE":
                facts["core"] = identifier
            else:
                track.append(f"{kind} {logical}")
        if track:
            columns["track"] = ", ".join(track)
        return _Place(columns, bool({"context", "stream"} & columns.keys()), is_summary, facts)

    def _known(self, contexts: Int64) -> list[Stack]:
        """The stacks of contexts."""
        return [self._stack(context) for context in contexts.tolist()]

    def _stack(self, context: int) -> Stack:
        """The stack of a context; one that the tree doesn't have is reported once."""
        stack = self._stacks.get(context) if context else _ALL
        if stack is None:
            stack = self._meta.stack(context)
            if context not in self._seen:
                self._seen.add(context)
                self._conversion.expanded(stack.size)
                if not self._meta.has(context):
                    self._report.issue("missing-string", f"meta.db: context {context}")
            self._held += len(stack.frames)
            if self._held > _HELD:
                self._stacks.clear()
                self._held = len(stack.frames)
            self._stacks[context] = stack
        return stack

    def traces(self, file: Source) -> Iterator[Batch]:
        """Yields the rows of all trace lines."""
        with opened(file, "trce") as data:
            at, count, size = data.fields("QIB", data.section(0))
            left = data.size
            for header in data.places(at, count, size, 24):
                profile, begin, end = data.fields("IxxxxQQ", header)
                length, odd = divmod(end - begin, _SAMPLE.itemsize)
                left -= max(0, end - begin)
                if odd or length < 0 or end > data.size or left < 0 or profile >= len(self._places):
                    self._report.record()
                    self._report.issue("bad-record", f"{file.name}: byte {header}", "no samples of a profile")
                    continue
                place = self._places[profile]
                for runs in self._runs(data, begin, length, place.is_gpu):
                    yield self._events(runs, place, f"{file.name}: profile {profile}, sample")

    def _runs(self, data: Database, begin: int, length: int, is_gpu: bool) -> Iterator[_Runs]:
        """Yields the stretches of a trace line: each sample of a thread, what a GPU stream does without a change."""
        size = self._conversion.batch_rows
        held, first = np.empty(0, _SAMPLE), 0
        for at in range(0, length, size):
            part = data.array(begin + at * _SAMPLE.itemsize, min(size, length - at), _SAMPLE)
            held = np.concatenate([held, part])
            is_last = at + size >= length
            changes = np.ones(len(held), np.bool_)
            if is_gpu:
                changes[1:] = held["context"][1:] != held["context"][:-1]
            starts = np.flatnonzero(changes)
            done = len(starts) if is_last else len(starts) - 1
            if not done:
                continue
            ts = np.minimum(held["ts"][starts], _LATEST).astype(np.int64)
            dur = np.append(np.diff(ts), -1)
            if is_gpu:  # idle is written 1 ns after the end
                dur[:-1] -= (held["context"][starts[1:]] == 0) & (dur[:-1] > 0)
            taken = len(held) if is_last else int(starts[-1])
            yield _Runs(starts[:done] + first, held["context"][starts[:done]], ts[:done], dur[:done], is_last, taken)
            held, first = held[taken:], first + taken

    def _events(self, runs: _Runs, place: _Place, where: str) -> Batch:
        """The rows of stretches; those that are idle only tell where others end."""
        active = runs.context != 0
        ended = np.ones(len(active), np.bool_)
        ended[-1] = not runs.is_open
        columns = {"ts": runs.ts, "dur": pa.array(runs.dur, mask=~ended), "context": runs.context}
        block = Block(where, pa.array(runs.number + 1), {name: pa.array(column) for name, column in columns.items()})
        self._report.record(runs.samples)
        self._report.used(runs.samples - int(np.count_nonzero(active)), outcome="end of a slice")
        block = timed(block.filter(pa.array(active)), self._conversion, "ts", dur="dur", open_end=True)
        context_ids, dur = block.take("context"), block.take("dur")
        assert context_ids is not None and dur is not None
        contexts, codes = np.unique(context_ids.to_numpy(), return_inverse=True)
        stacks = self._known(contexts)
        self._traced.update(contexts.tolist())
        typed: dict[str, Any]
        if place.is_gpu:
            work = list(map(_work, stacks))
            ways = pa.array([way for _, way in work], pa.string()).take(pa.array(codes))
            typed = {"kind": words([kind for kind, _ in work], codes), "dur": dur, "copy_kind": ways}
        else:
            typed = {"kind": "sample", "value": dur.cast(pa.float64()), "unit": "ns"}
        typed |= {"args.stack": words([str(context) for context in contexts.tolist()], codes)}
        names = words([stack.names[-1] for stack in stacks], codes)
        ids = self._batches.ids(len(block))
        return self._batches.events(block, ids, name=names, ts=block.take("ts"), **typed, **place.columns)

    def profiles(self, file: Source) -> Iterator[Batch]:
        """Yields the rows of the values of all profiles but those that sum up others."""
        with opened(file, "prof") as data:
            left = data.size
            for number, (at, place) in enumerate(zip(_profiles(data), self._places, strict=True)):
                values, begin, count, indices = data.fields("QQIxxxxQ", at)
                where = f"{file.name}: profile {number}"
                left -= values * VALUE.itemsize + count * _INDEX.itemsize
                try:
                    if left < 0:
                        raise data.damaged("has values that overlap", at)
                    data.places(begin, values, VALUE.itemsize, VALUE.itemsize)
                    index = data.array(indices, count, _INDEX)
                except DamagedInput as error:
                    self._bad(where, error.what)
                    continue
                starts = index["start"].astype(np.int64)
                if not is_whole(starts, values):
                    self._bad(where, "its values don't belong to its contexts")
                    continue
                self._report.record(values)
                if place.is_summary:
                    self._report.used(values, outcome="folded")
                else:
                    contexts = np.repeat(index["context"], np.diff(np.append(starts, values)))
                    yield from self._summaries(data.array(begin, values, VALUE), contexts, place, where)

    def _bad(self, where: str, why: str) -> None:
        self._report.record()
        self._report.issue("bad-record", where, why)

    def _summaries(self, data: Structured, contexts: AnyArray, place: _Place, where: str) -> Iterator[Batch]:
        """The rows of a profile."""
        nodes, around, columns = figures(data, contexts, self._meta.tree, self._measures, self._report, where)
        ids, of = self._batches.ids(len(nodes)), self._meta.tree.contexts[nodes]
        for part_rows in self._parts(of):
            part = {name: column[part_rows] for name, column in columns.items()}
            block = Block(where, pa.array(nodes[part_rows]), {})
            part |= self._paths(of[part_rows])
            outer = around[part_rows]
            part["parent"] = pa.array(ids[outer], mask=outer < 0)
            yield self._batches.summaries(block, ids[part_rows], table=0, **part, **place.columns)

    def _parts(self, contexts: AnyArray) -> Iterator[slice]:
        """Yields rows whose paths have a bounded size together."""
        size = min(_ROWS, self._conversion.batch_rows)
        for first in range(0, len(contexts), size):
            distinct, codes = np.unique(contexts[first : first + size], return_inverse=True)
            sizes = np.array([stack.size for stack in self._known(distinct)])[codes]
            cuts = np.flatnonzero(np.diff(sizes.cumsum() // _TEXT)) + 1
            bounds = [0, *cuts.tolist(), len(codes)]
            yield from (slice(first + start, first + end) for start, end in pairwise(bounds))

    def _paths(self, contexts: AnyArray) -> dict[str, Any]:
        """Name and scope of rows."""
        distinct, codes = np.unique(contexts, return_inverse=True)
        stacks = self._known(distinct)
        frames = [innermost_args(stack.names[-1], stack.frames).get("frame") for stack in stacks]
        scopes = pa.array([stack.frames[:-1] or None for stack in stacks], pa.list_(pa.string()))
        return {
            "name": words([stack.names[-1] for stack in stacks], codes),
            "scope": scopes.take(pa.array(codes)),
            "args.frame": pa.array(frames, pa.string()).take(pa.array(codes)),
        }

    def facts(self) -> Iterator[Batch]:
        """Yields the catalog: the tool, the clock, and the stacks of samples."""
        rows = RowBuilder(self._conversion, first_id=int(self._batches.ids(1)[0]))
        rows.tool_and_clock("HPCToolkit", "unix", {"run": self._meta.title, "database": self._meta.version})
        for place in self._places:
            if place.facts and "tid" in place.columns:
                thread = {name: place.columns[name] for name in ("host", "pid", "tid") if name in place.columns}
                rows.fact("thread", facts=place.facts, **thread)
        for context in sorted(self._traced):
            rows.fact("stack", name=str(context), facts={"frames": self._stack(context).frames})
            yield from rows.ready()
        yield from rows.rest()


def _work(stack: Stack) -> tuple[str, str | None]:
    """What a GPU does in a context: the kind of row, and the direction of a copy."""
    return next((_WORK[name] for name in reversed(stack.names) if name in _WORK), ("range", None))
