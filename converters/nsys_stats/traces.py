"""Reads rows of traces as events: GPU work, calls, ranges; a launch and its kernel become two events and an arrow.

The same code reads blocks of a CSV file and rows of a text table, which are collected into blocks first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.columnar.text_cells import Times
from ktrace.kit.text.headings import Heading
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.masks import present

from .block import IDS, NO_NAME, ImpliedUnit, Names, TraceBlock, copy_kind, kind_of
from .reports import EXEC, TRACE, trace_of

#: A column, or the word that is its value in every row; None for a missing column.
Column: TypeAlias = "pa.Array | str | None"

#: Fields of whole numbers whose column in the model has the same name.
NUMBERS = (
    *("pid", "tid", "context", "stream", "correlation", "registers"),
    *(f"{field}_{axis}" for field in ("grid", "block") for axis in "xyz"),
)

_TOO_LATE = 1 << 62
_XYZ = r"^(?P<x>\d{1,18})[\s,]+(?P<y>\d{1,18})[\s,]+(?P<z>\d{1,18})$"


class Skip(NamedTuple):
    """Skipped lines with one reason: the first, the last, and the number of rows."""

    kind: str
    first: int
    last: int
    rows: int
    detail: str


class TraceTable:
    """The reading of one trace: its headings, and what is reported at its end."""

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
        """Returns the batches of a block of rows, and the skipped lines. `lines` are the numbers of the rows' lines.

        Raises DamagedInput if the unit of the times can't be determined.
        """
        block = TraceBlock(self._headings, self._fields, lines, cells)
        block.imply(self._implied)
        return self._launches(block) if self._is_exec else self._events(block)

    def close(self) -> None:
        """Reports the issues of the whole table."""
        for heading, rows in self._rounded_sizes.items():
            self._conversion.report.issue("rounded-size", f"line {self._line}", heading, rows)
        self._rounded_sizes.clear()

    def _events(self, block: TraceBlock) -> tuple[list[Batch], list[Skip]]:
        trace = self._trace
        assert trace is not None
        start, duration, names = block.times("start"), _durations(block), block.names("name")
        if trace.kind == "range" and names.null_count:  # the root of projected ranges has no name, nor need others
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
        """Keeps the cells of times that were rounded, as `$ts` and `$dur`."""
        for key, field, times in (("$ts", "start", start), ("$dur", "duration", duration)):
            if block.has(field) and times.rounded.any():
                cells = pc.if_else(pa.array(times.rounded), block.cells(field), pa.scalar(None, pa.string()))
                block.args[f"args.{key}"] = cells
                for line in block.lines[times.rounded].tolist():
                    self._conversion.report.issue("rounded", f"line {line}", key)

    def _sizes(self, block: TraceBlock) -> dict[str, Column]:
        """Returns sizes in bytes. `shared_memory` is static and dynamic together, `shared_dynamic` the dynamic part."""
        columns: dict[str, Column] = {}
        for field, column in (("static", "shared_memory"), ("dynamic", "shared_dynamic"), ("bytes", "bytes")):
            if block.has(field):
                columns[column], rounded = block.sizes(field)
                if rounded:
                    heading = block.headings[block.fields[field]].text
                    self._rounded_sizes[heading] = self._rounded_sizes.get(heading, 0) + rounded
        static, dynamic = columns.get("shared_memory"), columns.get("shared_dynamic")
        if static is not None and dynamic is not None:
            both = pc.add(pc.fill_null(static, 0), pc.fill_null(dynamic, 0))
            has_size = pc.or_(pc.is_valid(static), pc.is_valid(dynamic))
            columns["shared_memory"] = pc.if_else(has_size, both, pa.scalar(None, pa.int64()))
        return columns

    def _launches(self, block: TraceBlock) -> tuple[list[Batch], list[Skip]]:
        """Returns for each row a call, its kernel as child, and the two ends of an arrow between them."""
        count, ids = len(block), block.lines * IDS
        call = block.times("api_start"), block.times("api_duration")
        work = block.times("start"), block.times("duration")
        self._keep_rounded(block, *work)
        pid, tid = (block.numbers(field) if block.has(field) else _nulls(count) for field in ("pid", "tid"))
        device = block.devices(self._names) if block.has("device") else _nulls(count)
        launch = _dimensions(block, "grid") | _dimensions(block, "block")
        block.put_rest()
        names = block.names("api"), block.names("name")
        columns: dict[str, Column] = {
            "id": _interleaved(pa.array(ids), pa.array(ids + 1)),
            "parent": _interleaved(_nulls(count), pa.array(ids)),
            "timing": "measured",
            "kind": _interleaved(*(pa.array([kind] * count, pa.string()) for kind in ("api", "kernel"))),
            "name": _interleaved(*(column.dictionary_decode() for column in names)).dictionary_encode(),
            "ts": _interleaved(call[0].ns, work[0].ns),
            "dur": _interleaved(call[1].ns, work[1].ns),
            "pid": _interleaved(pid, pid),
            "tid": _interleaved(tid, _nulls(count)),
            "device": _interleaved(_nulls(count), device),
        }
        of_kernel = launch | block.args
        columns |= {name: _interleaved(pa.nulls(count, column.type), column) for name, column in of_kernel.items()}
        links: dict[str, Column] = {
            "id": _interleaved(pa.array(ids + 2), pa.array(ids + 3)),
            "link": "launch",
            "key": _interleaved(*[pa.array(ids).cast(pa.string())] * 2),
            "role": _interleaved(*(pa.array([role] * count, pa.string()) for role in ("out", "in"))),
            "event": columns["id"],
        }
        good, skips = _checked(block.lines, names, [call, work])
        good = None if good is None else np.repeat(good, 2)
        return [*self._batches("events", columns, good), *self._batches("links", links, good)], skips

    def _batches(self, record: str, columns: Mapping[str, Column], good: Bools | None) -> Iterator[Batch]:
        """Yields columns as batches of bounded size, without columns that are entirely null."""
        count = next(len(column) for column in columns.values() if isinstance(column, pa.Array))
        schema = arrow_schema(record)
        constants: dict[str, pa.Array] = {}
        for name, column in {"source": self._conversion.label, **columns}.items():
            if isinstance(column, str):
                constants[name] = constant(column, count)
            elif column is not None and column.null_count < count:
                constants[name] = _as(column, schema.field(name).type) if name in schema.names else column
        batch = pa.RecordBatch.from_pydict(constants)
        batch = batch if good is None else batch.filter(pa.array(good))
        for begin in range(0, batch.num_rows, self._conversion.batch_rows):
            yield Batch(record, batch.slice(begin, self._conversion.batch_rows))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column with its type in the model; a dictionary of texts is kept."""
    if column.type == kind or pa.types.is_dictionary(column.type):
        return column
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def _interleaved(calls: pa.Array, kernels: pa.Array) -> pa.Array:
    """Returns a column with the values of two columns in turn."""
    if pa.types.is_dictionary(calls.type):
        calls, kernels = calls.dictionary_decode(), kernels.dictionary_decode()
    return pa.concat_arrays([calls, kernels]).take(pa.array(np.arange(2 * len(calls)).reshape(2, -1).T.ravel()))


def _nulls(rows: int) -> pa.Int64Array:
    return pa.nulls(rows, pa.int64())


def _durations(block: TraceBlock) -> Times:
    """Returns durations, or ends minus starts; an end that contradicts the duration is kept as an argument."""
    duration = block.times("duration")
    if not block.has("end"):
        return duration
    between = pc.subtract(block.times("end").ns, block.times("start").ns)
    other = pc.fill_null(pc.not_equal(between, duration.ns), False).to_numpy(zero_copy_only=False)
    block.keep("end", block.cells("end"), other)
    return Times(pc.coalesce(duration.ns, between), duration.rounded)


def _kinds(kind: str, names: pa.DictionaryArray) -> dict[str, Column]:
    """Returns the kind of the rows; if it depends on the row, also the direction of copies."""
    if kind:
        return {"kind": kind}
    words = [word or "" for word in names.dictionary.to_pylist()]
    kinds = pa.array([kind_of(word) for word in words], pa.string()).take(names.indices)
    ways = pa.array([copy_kind(word) for word in words], pa.string()).take(names.indices)
    return {"kind": pc.fill_null(kinds, "kernel"), "copy_kind": ways}


def _dimensions(block: TraceBlock, field: str) -> dict[str, pa.Array]:
    """Returns the three columns of `   2    1    1`, none without the field; other cells are kept as arguments."""
    if not block.has(field):
        return {}
    cells = block.cells(field)
    groups = pc.extract_regex(cells, _XYZ)
    block.keep(field, cells, ~present(groups))
    return {f"{field}_{axis}": pc.cast(pc.struct_field(groups, axis), pa.int64()) for axis in "xyz"}


def _keep_tree(block: TraceBlock, names: pa.DictionaryArray) -> None:
    """Keeps the name in the tree of ranges only if it isn't just the name after dashes for the level."""
    if block.has("tree"):
        tree = block.cells("tree")
        other = pc.not_equal(pc.utf8_ltrim(tree, "-"), pc.utf8_ltrim(names.dictionary_decode(), "-"))
        block.keep("tree", tree, pc.fill_null(other, True).to_numpy(zero_copy_only=False))


def _checked(
    lines: Int64, names: Sequence[pa.Array], spans: Sequence[tuple[Times, Times]]
) -> tuple[Bools | None, list[Skip]]:
    """Returns a mask of the rows to keep (None: all), and the skipped lines with their reasons."""
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
    """Returns the lines as skips, with consecutive lines together."""
    cuts = np.flatnonzero(np.diff(lines) != 1) + 1
    return [Skip(kind, int(run[0]), int(run[-1]), len(run), detail) for run in np.split(lines, cuts)]
