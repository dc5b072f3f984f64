"""Rows of traces become events: GPU work, calls, ranges; a launch and its kernel two of them with an arrow.

It is the same for a table in text, of which some rows are gathered first, and for blocks of a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar.dictionaries import constant
from ktrace.converters._shared.columnar.text_cells import Times
from ktrace.converters._shared.text.headings import Heading
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch, arrow_schema

from .block import IDS, Names, TraceBlock
from .kinds import NO_NAME, copy_kind, kind_of
from .trace_columns import EXEC, TRACE, trace_of
from .units import ImpliedUnit

#: A column, or the word that it says in every row; None for one that isn't there.
Column: TypeAlias = "pa.Array | str | None"

#: Fields that are columns of whole numbers of the same name.
NUMBERS = (
    *("pid", "tid", "context", "stream", "correlation", "registers"),
    *(f"{field}_{axis}" for field in ("grid", "block") for axis in "xyz"),
)

_TOO_LATE = 1 << 62
_XYZ = r"^(?P<x>\d{1,18})[\s,]+(?P<y>\d{1,18})[\s,]+(?P<z>\d{1,18})$"


class Skip(NamedTuple):
    """Lines that gave no row, for one reason: the first, the last, how many rows there were."""

    kind: str
    first: int
    last: int
    rows: int
    detail: str


class TraceTable:
    """A trace that is being read: its headings, and what there is to say of it at its end."""

    def __init__(
        self,
        headings: Sequence[Heading],
        fields: dict[str, int],
        line: int,
        names: Names,
        implied: ImpliedUnit,
        conversion: Conversion,
    ) -> None:
        self._headings = headings
        self._fields = fields
        self._line = line
        self._names = names
        self._implied = implied
        self._conversion = conversion
        self._trace = trace_of(headings)
        self._rounded_sizes: dict[str, int] = {}
        for heading in (EXEC if self._is_exec else TRACE).unknown(headings, fields):
            conversion.report.issue("unknown-column", f"line {line}", heading)

    @property
    def _is_exec(self) -> bool:
        return "api_start" in self._fields

    def take(self, lines: Int64, cells: Sequence[pa.StringArray]) -> tuple[list[Batch], list[Skip]]:
        """The batches of some rows, and what was left out. `lines` are the numbers of their lines.

        Raises DamagedInput where nothing says the unit of the times.
        """
        block = TraceBlock(self._headings, self._fields, lines, cells)
        block.imply(self._implied)
        return self._launches(block) if self._is_exec else self._events(block)

    def close(self) -> None:
        """Reports what concerns the whole table."""
        for heading, rows in self._rounded_sizes.items():
            self._conversion.report.issue("rounded-size", f"line {self._line}", heading, rows)
        self._rounded_sizes.clear()

    def _events(self, block: TraceBlock) -> tuple[list[Batch], list[Skip]]:
        trace = self._trace
        assert trace is not None
        start, duration, names = block.times("start"), _durations(block), block.names("name")
        if trace.kind == "range" and names.null_count:  # a range needs no name, nor has the root of projected ones
            names = pc.fill_null(names.dictionary_decode(), NO_NAME).dictionary_encode()
        columns: dict[str, Column] = {"id": pa.array(block.lines * IDS), "timing": "measured", "name": names}
        columns |= {"ts": start.ns, "dur": duration.ns, "track": trace.track}
        self._keep_rounded(block, start, duration)
        columns |= _kinds(trace.kind, names) | {field: block.numbers(field) for field in NUMBERS if block.has(field)}
        columns |= self._sizes(block)
        if block.has("device"):
            columns["device"] = block.devices(self._names)
        if block.has("cat"):
            columns["cat"] = block.cells("cat")
        if block.has("thread"):
            block.threads(self._names)
        _keep_tree(block, names)
        block.put_rest()
        good, skips = _checked(block.lines, [names], [(start, duration)])
        return list(self._batches("events", columns | block.args, good)), skips

    def _keep_rounded(self, block: TraceBlock, start: Times, duration: Times) -> None:
        """Keeps the source's own numbers of times that were rounded, as `$ts` and `$dur`."""
        for key, field, found in (("$ts", "start", start), ("$dur", "duration", duration)):
            if block.has(field) and found.rounded.any():
                cells = pc.if_else(pa.array(found.rounded), block.cells(field), pa.scalar(None, pa.string()))
                block.args[f"args.{key}"] = cells
                for line in block.lines[found.rounded].tolist():
                    self._conversion.report.issue("rounded", f"line {line}", key)

    def _sizes(self, block: TraceBlock) -> dict[str, Column]:
        """Sizes in bytes. Shared memory is all of it; the part that is asked for at the launch has its own column."""
        found: dict[str, Column] = {}
        for field, column in (("static", "shared_memory"), ("dynamic", "shared_dynamic"), ("bytes", "bytes")):
            if block.has(field):
                found[column], rounded = block.sizes(field)
                if rounded:
                    heading = block.headings[block.fields[field]].text
                    self._rounded_sizes[heading] = self._rounded_sizes.get(heading, 0) + rounded
        static, dynamic = found.get("shared_memory"), found.get("shared_dynamic")
        if static is not None and dynamic is not None:
            both = pc.add(pc.fill_null(static, 0), pc.fill_null(dynamic, 0))
            said = pc.or_(pc.is_valid(static), pc.is_valid(dynamic))
            found["shared_memory"] = pc.if_else(said, both, pa.scalar(None, pa.int64()))
        return found

    def _launches(self, block: TraceBlock) -> tuple[list[Batch], list[Skip]]:
        """A call and its kernel, which has it as parent, and the two ends of an arrow between them."""
        count, ids = len(block), block.lines * IDS
        call = block.times("api_start"), block.times("api_duration")
        work = block.times("start"), block.times("duration")
        self._keep_rounded(block, *work)
        pid, tid = (block.numbers(field) if block.has(field) else _nothing(count) for field in ("pid", "tid"))
        device = block.devices(self._names) if block.has("device") else _nothing(count)
        launch = _dimensions(block, "grid") | _dimensions(block, "block")
        block.put_rest()
        names = block.names("api"), block.names("name")
        columns: dict[str, Column] = {
            "id": _two(pa.array(ids), pa.array(ids + 1)),
            "parent": _two(_nothing(count), pa.array(ids)),
            "timing": "measured",
            "kind": _two(*(pa.array([kind] * count, pa.string()) for kind in ("api", "kernel"))),
            "name": _two(*(column.dictionary_decode() for column in names)).dictionary_encode(),
            "ts": _two(call[0].ns, work[0].ns),
            "dur": _two(call[1].ns, work[1].ns),
            "pid": _two(pid, pid),
            "tid": _two(tid, _nothing(count)),
            "device": _two(_nothing(count), device),
        }
        of_kernel = launch | block.args
        columns |= {name: _two(pa.nulls(count, column.type), column) for name, column in of_kernel.items()}
        links: dict[str, Column] = {
            "id": _two(pa.array(ids + 2), pa.array(ids + 3)),
            "link": "launch",
            "key": _two(*[pa.array(ids).cast(pa.string())] * 2),
            "role": _two(*(pa.array([role] * count, pa.string()) for role in ("out", "in"))),
            "event": columns["id"],
        }
        good, skips = _checked(block.lines, names, [call, work])
        good = None if good is None else np.repeat(good, 2)
        return [*self._batches("events", columns, good), *self._batches("links", links, good)], skips

    def _batches(self, record: str, columns: Mapping[str, Column], good: Bools | None) -> Iterator[Batch]:
        """Columns as batches of bounded size; those that are null throughout are left out."""
        count = next(len(column) for column in columns.values() if isinstance(column, pa.Array))
        schema = arrow_schema(record)
        found: dict[str, pa.Array] = {}
        for name, column in {"source": self._conversion.label, **columns}.items():
            if isinstance(column, str):
                found[name] = constant(column, count)
            elif column is not None and column.null_count < count:
                found[name] = _as(column, schema.field(name).type) if name in schema.names else column
        batch = pa.RecordBatch.from_pydict(found)
        batch = batch if good is None else batch.filter(pa.array(good))
        for begin in range(0, batch.num_rows, self._conversion.batch_rows):
            yield Batch(record, batch.slice(begin, self._conversion.batch_rows))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in its type of the model; a dictionary of texts may stay one."""
    if column.type == kind or pa.types.is_dictionary(column.type):
        return column
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def _two(one: pa.Array, other: pa.Array) -> pa.Array:
    """A column of the rows of two in turn."""
    if pa.types.is_dictionary(one.type):
        one, other = one.dictionary_decode(), other.dictionary_decode()
    return pa.concat_arrays([one, other]).take(pa.array(np.arange(2 * len(one)).reshape(2, -1).T.ravel()))


def _nothing(rows: int) -> pa.Int64Array:
    return pa.nulls(rows, pa.int64())


def _durations(block: TraceBlock) -> Times:
    """Durations, or ends less starts; an end that says something else stays an argument."""
    duration = block.times("duration")
    if not block.has("end"):
        return duration
    between = pc.subtract(block.times("end").ns, block.times("start").ns)
    other = pc.fill_null(pc.not_equal(between, duration.ns), False).to_numpy(zero_copy_only=False)
    block.keep("end", block.cells("end"), other)
    return Times(pc.coalesce(duration.ns, between), duration.rounded)


def _kinds(kind: str, names: pa.DictionaryArray) -> dict[str, Column]:
    """The kinds of the rows; where each row says its own, that and the direction of copies."""
    if kind:
        return {"kind": kind}
    words = [word or "" for word in names.dictionary.to_pylist()]
    kinds = pa.array([kind_of(word) for word in words], pa.string()).take(names.indices)
    ways = pa.array([copy_kind(word) for word in words], pa.string()).take(names.indices)
    return {"kind": pc.fill_null(kinds, "kernel"), "copy_kind": ways}


def _dimensions(block: TraceBlock, field: str) -> dict[str, pa.Array]:
    """Three columns of `   2    1    1`; what isn't three numbers stays an argument. None where there is no field."""
    if not block.has(field):
        return {}
    cells = block.cells(field)
    found = pc.extract_regex(cells, _XYZ)
    block.keep(field, cells, found.is_null().to_numpy(zero_copy_only=False))
    return {f"{field}_{axis}": pc.cast(pc.struct_field(found, axis), pa.int64()) for axis in "xyz"}


def _keep_tree(block: TraceBlock, names: pa.DictionaryArray) -> None:
    """Keeps the name in the tree of ranges only where it is more than the name behind dashes for the level."""
    if block.has("tree"):
        tree = block.cells("tree")
        other = pc.not_equal(pc.utf8_ltrim(tree, "-"), pc.utf8_ltrim(names.dictionary_decode(), "-"))
        block.keep("tree", tree, pc.fill_null(other, True).to_numpy(zero_copy_only=False))


def _checked(
    lines: Int64, names: Sequence[pa.Array], spans: Sequence[tuple[Times, Times]]
) -> tuple[Bools | None, list[Skip]]:
    """Which rows are good (None: all), and why the others aren't."""
    problems = [(column.is_null(), "bad-record", "no name") for column in names]
    for start, duration in spans:
        problems += [
            (start.ns.is_null(), "bad-record", "no time"),
            (pc.less(duration.ns, 0), "negative-duration", ""),
            (_late(start.ns), "time-range", ""),
            (_late(duration.ns), "time-range", ""),
        ]
    good = np.ones(len(lines), np.bool_)
    skips: list[Skip] = []
    for mask, kind, detail in problems:
        bad = good & pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
        if bad.any():
            good &= ~bad
            skips += _runs(lines[bad], kind, detail)
    return (None if good.all() else good), skips


def _late(ns: pa.Int64Array) -> pa.BooleanArray:
    return pc.or_(pc.greater_equal(ns, _TOO_LATE), pc.less_equal(ns, -_TOO_LATE))


def _runs(lines: Int64, kind: str, detail: str) -> list[Skip]:
    """Lines, those that follow one another together."""
    cuts = np.flatnonzero(np.diff(lines) != 1) + 1
    return [Skip(kind, int(run[0]), int(run[-1]), len(run), detail) for run in np.split(lines, cuts)]
