"""Dispatches in ROCm's CSV tables as kernels, with their counters as children.

    Dispatch_Id 7  Kernel_Name gemm  Start_Timestamp 100  End_Timestamp 180  SQ_WAVES 128      wide: one row
        kernel gemm  ts 100  dur 80            counter SQ_WAVES 128, its parent the kernel

    Dispatch_Id 7 ... Counter_Name SQ_WAVES  Counter_Value 128     long: a row for each counter; the first row makes the
    Dispatch_Id 7 ... Counter_Name GRBM_COUNT  Counter_Value 900   kernel, unless it is known from kernel_trace

A dispatch without times becomes a summary, and so do its counters. The times of a table that joins several passes are
derived, because no pass read all of its counters:

    Dispatch_ID, Kernel_Name, ..., wave_size, obj, SQ_WAVES, wave_size_1, obj_1, TCC_HIT_sum      two passes joined
    Start_Timestamp 8.1097E+14                rounded to 10 s by a spreadsheet: useless
    Start_Timestamp 1.33867422346919e+16      printed as a float: accurate to 10 ns

Counters may be in other rows and files than their kernels:

    kernel_trace        Dispatch_Id 7 of process 12: id 4096, ts 100, dur 80
    counter_collection  Dispatch_Id 7 of process 12 from 100 to 180: SQ_WAVES 128        below 4096
    pmc_perf, long      Dispatch_ID 7 from 100 to 180: SQ_WAVES 128, from 900 to 970: GRBM_COUNT 5      two dispatches

A tool that collects counters in several passes runs the program once for each pass, and each run numbers its dispatches
from 1: the identity of a dispatch is its number, its process and its times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.text_cells import floats
from ktrace.kit.columnar.typed_cells import Field, Number, Text, Time, Whole, Word, joined, own_heading, typed
from ktrace.kit.text.headings import cell_quantity
from ktrace.model.arrays import Int64, is_number
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, json_cells
from ktrace.report import Report

from .common import MEANS, agents, blocks_of, executed, mean_counter, short_names
from .tables import DISPATCH

FIELDS: dict[str, Field] = {
    "name": Text("Kernel_Name", "KernelName", "kernel-name"),
    "ts": Time("Start_Timestamp", "BeginNs", "Begin_Timestamp"),
    "end": Time("End_Timestamp", "EndNs", "Stop_Timestamp"),
    "total": Time("DurationNs", "Duration"),
    "agent": Word("Agent_Id", "GPU_ID", "gpu-id"),
    "queue": Whole("Queue_Id", "Queue_ID", "queue-id"),
    "stream": Whole("Stream_Id"),
    "pid": Whole("Process_Id", "PID", "pid"),
    "tid": Whole("Thread_Id", "TID", "tid"),
    "dispatch": Whole("Dispatch_Id", "Dispatch_ID", "Index"),
    "correlation": Whole("Correlation_Id", "Correlation_ID"),
    **{f"grid_{axis}": Whole(f"Grid_Size_{axis}") for axis in "xyz"},
    **{f"block_{axis}": Whole(f"Workgroup_Size_{axis}") for axis in "xyz"},
    "grid": Whole("Grid_Size", "grd"),
    "block": Whole("Workgroup_Size", "wgr"),
    "registers": Whole("VGPR_Count", "Arch_VGPR", "arch_vgpr", "vgpr"),
    "shared": Whole("LDS_Block_Size", "Group_Segment_Size", "LDS_Per_Workgroup", "LDS", "lds"),
    "cat": Word("Kind", "Domain"),
    "counter": Text("Counter_Name"),
    "value": Number("Counter_Value"),
}

#: Further headings of dispatches, in lower case; in a table without "Kind" all other headings are counters.
_KNOWN = frozenset(
    {
        *("kind", "guid", "domain", "kernel_id", "scratch_size", "private_segment_size", "scr", "scratch_per_workitem"),
        *("accum_vgpr_count", "accum_vgpr", "accumulative_vgpr", "sgpr_count", "sgpr", "wave_size", "fbar", "sig"),
        *("obj", "dispatchns", "completens", "queue-index", "replay_pass", "node", "run", "pass", "context", "key"),
        *("xcc_index", "hostduration"),
        *(spelling.casefold() for field in FIELDS.values() for spelling in field.spellings),
    }
)

_OF_PASS = re.compile(r"(.+)_\d{1,3}")

#: A time that lacks this many digits, or more, is useless: it is accurate to 1 us at best.
_USELESS = 3


class Accuracy(Enum):
    """How accurate the times of rows are."""

    EXACT = 0
    NEAR = 1
    USELESS = 2


class TimedRows(NamedTuple):
    """Rows of a table whose times are equally accurate."""

    rows: CsvRows
    accuracy: Accuracy


def counters_of(blocks: Sequence[Block]) -> list[str]:
    """The headings that are counters: all but a dispatch's own, if half of their cells or more are numbers.

    The blocks are one of a table, in parts: a cell alone in its part doesn't make a counter an argument.
    """
    left = (name.removeprefix("args.") for block in blocks for name in block.rest())
    counters = dict.fromkeys(
        name for name in left if not (name.casefold() in _KNOWN or _repeats(name)) and not name.startswith(("<", "$"))
    )
    columns = {name: [of for block in blocks if (of := block.get(name)) is not None] for name in counters}
    return [name for name, of in columns.items() if 2 * sum(map(_numbers, of)) >= sum(map(_filled, of)) > 0]


def _numbers(column: pa.Array) -> int:
    return len(column) - int(floats_of(column).null_count)


def _filled(column: pa.Array) -> int:
    return len(column) - int(column.null_count)


def counter_values(block: Block, counters: Iterable[str], report: Report) -> tuple[Block, dict[str, pa.DoubleArray]]:
    """Takes the counters from a block; cells that aren't numbers stay there, and are reported."""
    values = {name: floats_of(block.get(name)) for name in counters}
    odd: dict[str, pa.Array] = {}
    for name, numbers in values.items():
        column = block.get(name)
        if column is not None and column.null_count < numbers.null_count:
            odd[name] = pc.if_else(numbers.is_valid(), pa.scalar(None, decoded(column).type), decoded(column))
            first = pc.index(odd[name].is_valid(), True).as_py()
            text = json_cells(odd[name])[first].as_py().strip('"')
            lost = numbers.null_count - column.null_count
            report.issue("misfit", block.where(first), f"{name}: {text}", lost)
    return block.without(*values).replaced(odd), values


def _repeats(name: str) -> bool:
    """Whether a heading is one of the dispatch's own, repeated for a further pass."""
    match = _OF_PASS.fullmatch(name)
    return match is not None and match[1].casefold() in _KNOWN


def is_joined(headings: Iterable[str]) -> bool:
    """Whether a table joins several passes: its times are those of another pass, or means."""
    return any(map(_repeats, headings))


def floats_of(column: pa.Array | None) -> pa.DoubleArray:
    """Returns an argument's column as float64, null for cells that aren't numbers."""
    assert column is not None
    if pa.types.is_integer(column.type):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return floats(column.cast(pa.string()))


def by_accuracy(item: CsvRows, report: Report) -> Iterator[TimedRows]:
    """Yields the rows by the accuracy of their times; reports those with rounded times."""
    missing = rounded(item, FIELDS, report)
    if missing is None:
        yield TimedRows(item, Accuracy.EXACT)
        return
    useless = missing >= _USELESS
    near = (missing > 0) & ~useless
    for accuracy, rows in ((Accuracy.EXACT, missing == 0), (Accuracy.NEAR, near), (Accuracy.USELESS, useless)):
        if rows.any():
            yield TimedRows(CsvRows(item.table, item.block.filter(pa.array(rows))), accuracy)


def with_usable_times(item: CsvRows, fields: Mapping[str, Field], report: Report) -> CsvRows:
    """Returns the rows with usable times; reports the others as bad records."""
    missing = rounded(item, fields, report, lost=True)
    return item if missing is None else CsvRows(item.table, item.block.filter(pa.array(missing < _USELESS)))


def rounded(item: CsvRows, fields: Mapping[str, Field], report: Report, *, lost: bool = False) -> Int64 | None:
    """Returns how many digits the times `ts` and `end` of each row lack at the end; None if no time lacks any.

    Reports the rows with such times; if `lost`, those with useless times as bad records.
    """
    missing_digits = [
        _missing_digits(cells) for name in ("ts", "end") if (cells := _cells(item, fields.get(name))) is not None
    ]
    if not any(missing.any() for missing in missing_digits):
        return None
    missing: Int64 = np.maximum.reduce(missing_digits)
    for row in np.flatnonzero(missing).tolist():
        kind = "bad-record" if lost and missing[row] >= _USELESS else "rounded-time"
        report.issue(kind, item.block.where(row), f"a time accurate to 10^{missing[row]} ns")
    return missing


def _cells(item: CsvRows, field: Field | None) -> pa.StringArray | None:
    name_in_file = None if field is None else own_heading(item.table, field)
    return None if name_in_file is None else item.block.get(name_in_file)


def _missing_digits(cells: pa.StringArray) -> Int64:
    odd = pc.fill_null(pc.match_substring_regex(cells, "[eE]"), False)
    if not odd.true_count:
        return np.zeros(len(cells), np.int64)
    result: Int64 = pc.fill_null(by_distinct(cells, _missing, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return result


def _missing(text: str | None) -> int:
    figure = cell_quantity(text) if text and "e" in text.casefold() else None
    exponent = figure.number.as_tuple().exponent if figure else 0
    return max(exponent, 0) if isinstance(exponent, int) else 0


#: Replaces the time in the key of a dispatch without one: times beyond 2^62 are refused.
_NO_TIME = 1 << 62


class KnownDispatches:
    """The dispatches that became kernels: their ids, times and places, for counters that follow later."""

    def __init__(self) -> None:
        self._of_pass = _Index()
        self._by_number = _Index()
        self._remembered: dict[str, pa.Array] = {}
        self._rows = 0

    def add(self, block: Block, pids: Any, columns: dict[str, pa.Array]) -> None:
        """Adds kernels: rows with their numbers and times, and the columns to remember."""
        remembered = self._remembered
        self._remembered = {
            name: pa.concat_arrays([remembered[name], column]) if name in remembered else column
            for name, column in columns.items()
        }
        places = np.arange(self._rows, self._rows + len(block))
        self._rows += len(block)
        self._of_pass.add(keys_of(block, pids), places)
        if block.get("<ts>") is not None:
            self._by_number.add(_numbered(block, pids), places)

    def find(self, block: Block, pids: Any) -> Int64:
        """Returns the index of the kernel of each row, -1 for none.

        Rows without times belong to the kernel with their number, if only one has it.
        """
        rows = self._of_pass.find(keys_of(block, pids))
        if block.get("<ts>") is None:
            by_number = self._by_number.find(_numbered(block, pids), unique=True)
            rows = np.where(by_number >= 0, by_number, rows)
        return rows

    def columns(self, places: Int64) -> dict[str, pa.Array]:
        """The remembered columns of the kernels with those indices."""
        return {name: column.take(pa.array(places)) for name, column in self._remembered.items()}


class _Index:
    """Keys and the indices of their kernels, in sorted runs: a run is merged with shorter ones before it."""

    def __init__(self) -> None:
        self._runs: list[tuple[Int64, Int64]] = []

    def add(self, keys: Int64, places: Int64) -> None:
        while self._runs and len(self._runs[-1][0]) <= len(keys):
            before = self._runs.pop()
            keys, places = np.concatenate([before[0], keys]), np.concatenate([before[1], places])
        order = np.argsort(keys, kind="stable")
        self._runs.append((keys[order], places[order]))

    def find(self, keys: Int64, *, unique: bool = False) -> Int64:
        """The index that a key was first added with; if `unique`, -1 for a key that was added twice."""
        rows = np.full(len(keys), -1, np.int64)
        times = np.zeros(len(keys), np.int64)
        for run, places in self._runs:
            at = np.searchsorted(run, keys)
            count = np.searchsorted(run, keys, side="right") - at
            new = (count > 0) & (rows < 0)
            rows[new] = places[at[new]]
            times += count
        return np.where(times > 1, -1, rows) if unique else rows


def keys_of(block: Block, pids: Any) -> Int64:
    """The key of each dispatch: number, process and times, or without times number, process, device and correlation."""
    if block.get("<ts>") is not None:
        return _mixed(len(block), pids, *(block.get(name) for name in ("<dispatch>", "<ts>", "<end>")))
    return _mixed(len(block), pids, block.get("<dispatch>"), agents(block.get("<agent>")), block.get("<correlation>"))


def _numbered(block: Block, pids: Any) -> Int64:
    return _mixed(len(block), pids, block.get("<dispatch>"))


def _mixed(rows: int, *parts: Any) -> Int64:
    """Hashes columns to 64 bits a row. The chance that two of a million dispatches collide is 1 in 30 million."""
    mixed = np.zeros(rows, np.uint64)
    for part in parts:
        if isinstance(part, pa.Array):
            numbers = pc.fill_null(part.cast(pa.int64()), _NO_TIME).to_numpy(zero_copy_only=False)
        else:
            numbers = np.full(rows, _NO_TIME if part is None else part, np.int64)
        mixed ^= numbers.astype(np.uint64)
        mixed += np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return mixed.view(np.int64)


#: The ids of the rows of a line begin at this times its number: a dispatch has two for each counter.
IDS = 4096

_TIMELESS = {name: field for name, field in FIELDS.items() if name not in ("ts", "end")}


class DispatchRows:
    """Makes kernels and counters of the dispatches of one process.

    `pid` and `host` are for rows without one, `first_id` is added to all ids. `dispatched` are the kernels in other
    files; if more files follow, `remember` adds those of this one. `engines` is device -> its XCCs and shader engines,
    for the means that the GPU tab shows.
    """

    def __init__(
        self,
        conversion: Conversion,
        *,
        first_id: int = 0,
        pid: int | None = None,
        host: str | None = None,
        dispatched: KnownDispatches | None = None,
        remember: bool = False,
        engines: dict[int, tuple[int | None, int | None]] | None = None,
    ) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self._first = first_id
        self._pid = pid
        self._host = host
        self._dispatched = KnownDispatches() if dispatched is None else dispatched
        self._remembers = remember
        self._args: dict[str, str] = {}
        self._timing = "measured"
        self._engines = engines or {}

    def rows(self, item: CsvRows) -> Iterator[Batch]:
        """Yields events of dispatches in any of the forms, or summaries if the table has no times."""
        self._args = {name: f"args.{own_heading(item.table, field) or name}" for name, field in FIELDS.items()}
        parts = [(self._typed(*part), part.accuracy) for part in by_accuracy(item, self._conversion.report)]
        is_dispatch = item.table.what == DISPATCH and parts[0][0].get("<cat>") is None
        counters = counters_of([block for block, _ in parts]) if is_dispatch else []
        is_joint = is_joined(item.table.headings)
        made = [
            batch
            for block, accuracy in parts
            for batch in self._batches_of(block, accuracy, counters, is_joint=is_joint)
        ]
        yield from made if len(made) == 1 else _in_order(made, self._conversion.batch_rows)

    def _typed(self, item: CsvRows, accuracy: Accuracy) -> Block:
        return typed(item, FIELDS if accuracy is not Accuracy.USELESS else _TIMELESS, self._conversion.report)

    def _batches_of(self, block: Block, accuracy: Accuracy, counters: list[str], *, is_joint: bool) -> Iterator[Batch]:
        """As `rows`, for rows whose times are equally accurate."""
        counters = [name for name in counters if block.get(name) is not None]
        is_timed = block.get("<ts>") is not None and block.get("<end>") is not None
        self._timing = "derived" if accuracy is Accuracy.NEAR or is_joint else "measured"
        if block.get("<counter>") is not None:
            yield from self._long(block, is_timed)
        else:
            yield from self._wide(block, counters) if is_timed else self._untimed(block, counters)

    def _ids(self, block: Block) -> Int64:
        result: Int64 = self._first + block.numbers.to_numpy() * IDS
        return result

    def _ran(self, block: Block) -> Block:
        return timed(executed(block, self._conversion, "<ts>", "<end>"), self._conversion, "<ts>", "<end>")

    def _wide(self, block: Block, counters: list[str]) -> Iterator[Batch]:
        block = self._ran(block)
        ids = self._ids(block)
        block, values = counter_values(block, counters, self._conversion.report)
        place, kernel = self._kernel(block)
        if self._remembers:
            self._remember(block, ids, place)
        place["timing"] = self._timings(block, place)
        yield self._batches.events(block, ids, **joined(block, {**place, **kernel}))
        yield from self._counters(ids, place, values)

    def _timings(self, block: Block, place: dict[str, Any]) -> str | pa.StringArray:
        """Measured, unless a dispatch was submitted after it ended, or was done before it began: a time of another run.

        rocprof-compute puts the times of a run without counters into the tables of those with counters.
        """
        submitted, done = block.get("DispatchNs"), block.get("CompleteNs")
        if self._timing != "measured" or not (_is_whole(submitted) and _is_whole(done)):
            return self._timing
        end = pc.add(place["ts"], place["dur"])
        other = pc.fill_null(pc.or_(pc.greater(submitted, end), pc.less(done, place["ts"])), False)
        return pc.if_else(other, "derived", "measured")

    def _kernel(self, block: Block) -> tuple[dict[str, Any], dict[str, Any]]:
        """Where and when kernels ran, and their other columns."""
        place = self._place(block) | block.span("<ts>", "<end>")
        total = block.take("<total>")
        if total is not None and (other := pc.fill_null(pc.not_equal(total, place["dur"]), False)).true_count:
            place_total = pc.if_else(other, total, pa.scalar(None, pa.int64()))
            return place, {self._args["total"]: place_total, **self._launch(block)}
        return place, self._launch(block)

    def _place(self, block: Block) -> dict[str, Any]:
        agent, queue, stream = block.take("<agent>"), block.take("<queue>"), block.take("<stream>")
        pid, device = block.take("<pid>"), agents(agent)
        return {
            "host": self._host,
            "pid": self._pid if pid is None else pid,
            "device": device,
            "stream": queue if stream is None else stream,
            self._args["queue"]: None if stream is None else queue,
            self._args["agent"]: self._no_agent(block, agent, device),
        }

    def _no_agent(self, block: Block, agent: pa.Array | None, device: pa.Array | None) -> pa.Array | None:
        """What names an agent and is none, which is kept as an argument and reported; None if there is nothing."""
        if agent is None or device is None or device.null_count == agent.null_count:
            return None
        odd = pc.if_else(device.is_valid(), pa.scalar(None, decoded(agent).type), decoded(agent))
        first, heading = pc.index(odd.is_valid(), True).as_py(), self._args["agent"].removeprefix("args.")
        lost = device.null_count - agent.null_count
        self._conversion.report.issue("misfit", block.where(first), f"{heading}: {odd[first]}", lost)
        return odd

    def _launch(self, block: Block) -> dict[str, Any]:
        name, correlation = block.take("<name>"), block.take("<correlation>")
        if name is None:
            numbers = block.get("<dispatch>")
            assert numbers is not None  # a table of counters has one, others have names
            name = pc.binary_join_element_wise("dispatch ", pc.fill_null(numbers.cast(pa.string()), "?"), "")
        columns: dict[str, Any] = {"kind": "kernel", "name": name, "registers": block.take("<registers>")}
        columns |= {"cat": block.take("<cat>"), "shared_memory": block.take("<shared>")}
        columns |= {self._args[name]: block.take(f"<{name}>") for name in ("dispatch", "tid")}
        columns["short_name"] = short_names(name)
        if correlation is not None:
            columns["correlation"] = nonzero(correlation)
        for axis in ("_x", "_y", "_z", ""):
            workgroup, grid = block.take(f"<block{axis}>"), block.take(f"<grid{axis}>")
            blocks = blocks_of(grid, workgroup)
            if workgroup is None and blocks is None:
                continue
            to = axis or "_x"  # of a product only the total is known
            if to == "_x" and columns.get("block_x") is not None:
                continue
            columns[f"block{to}"] = workgroup
            if blocks is not None:
                columns[f"grid{to}"] = blocks.blocks
                columns[self._args[f"grid{axis}"]] = blocks.left
        return columns

    def _untimed_launch(self, block: Block) -> dict[str, Any]:
        """The columns of a summary: its correlation is an argument."""
        columns = self._launch(block)
        columns[self._args["correlation"]] = columns.pop("correlation", None)
        return columns

    def _remember(self, block: Block, ids: Int64, place: dict[str, Any]) -> None:
        columns = {"id": pa.array(ids), "ts": place["ts"], "dur": place["dur"]}
        for name in ("device", "stream", "pid"):
            column = place[name]
            columns[name] = column if isinstance(column, pa.Array) else pa.array([column] * len(ids), pa.int64())
        self._dispatched.add(block, place["pid"], columns)

    def _counters(self, ids: Int64, place: dict[str, Any], values: dict[str, pa.DoubleArray]) -> Iterator[Batch]:
        """Yields counter events of kernels, as their children, and the means derived from them."""
        here = {name: place[name] for name in ("host", "pid", "device", "stream", "ts", "dur", "timing")}
        for offset, (name, column) in enumerate(values.items()):
            present = column.is_valid()
            rows = {key: _filtered(part, present) for key, part in here.items()}
            owners = ids[present.to_numpy(zero_copy_only=False)]
            names = pa.array([name] * len(owners), pa.string())
            yield from self._counter_rows(owners + 1 + 2 * offset, owners, names, column.filter(present), rows)

    def _counter_rows(
        self, ids: Int64, parents: Int64, names: pa.Array, values: pa.DoubleArray, place: dict[str, Any]
    ) -> Iterator[Batch]:
        if not len(ids):
            return
        about = {"kind": "counter", "parent": pa.array(parents), **place}
        yield self._batches.batch("events", ids, name=names, value=values, **about)
        derived, means = self._means(names, place["device"])
        if means:
            at = pa.array(derived)
            columns = {key: part.take(at) if isinstance(part, pa.Array) else part for key, part in about.items()}
            columns["name"] = pa.array([name for name, _ in means], pa.string())
            columns["timing"] = "derived"
            columns["value"] = pc.divide(values.take(at), pa.array([float(units) for _, units in means]))
            yield self._batches.batch("events", ids[derived] + 1, **columns)

    def _means(self, names: pa.Array, devices: Any) -> tuple[Int64, list[tuple[str, int]]]:
        """The rows whose mean the GPU tab shows, and for each the name of the mean and its number of units."""
        if not self._engines or devices is None:
            return np.empty(0, np.int64), []
        rows = np.flatnonzero(pc.is_in(names, pa.array(list(MEANS))).to_numpy(zero_copy_only=False))
        at = pa.array(rows)
        pairs = zip(names.take(at).to_pylist(), devices.take(at).to_pylist(), strict=True)
        means = [mean_counter(name, *self._engines.get(device, (None, None))) for name, device in pairs]
        return rows[[mean is not None for mean in means]], [mean for mean in means if mean]

    def _long(self, block: Block, is_timed: bool) -> Iterator[Batch]:
        """Yields counters of a table with a row for each; the first row of a dispatch makes its kernel if it is new."""
        if block.get("<dispatch>") is None or block.get("<value>") is None:
            self._conversion.report.issue("bad-record", block.where(0), "no Dispatch_Id or Counter_Value", len(block))
            return
        if is_timed:
            block = self._ran(block)
        good = pc.and_(block.get("<value>").is_valid(), block.get("<dispatch>").is_valid())  # type: ignore[union-attr]
        for row in np.flatnonzero(~good.to_numpy(zero_copy_only=False)).tolist():
            self._conversion.report.issue("bad-record", block.where(row), "Dispatch_Id or Counter_Value isn't a number")
        block = block.filter(good)
        if not len(block):
            return
        pid = block.get("<pid>")
        pid = self._pid if pid is None else pid
        firsts = np.zeros(len(block), np.bool_)
        _, first = np.unique(keys_of(block, pid), return_index=True)
        firsts[first] = True
        new = block.filter(pa.array(firsts & (self._dispatched.find(block, pid) < 0)))
        if len(new):
            new.drop("<counter>", "<value>")
            yield self._first_of(new, is_timed)
        yield from self._values(block, self._dispatched.find(block, pid))

    def _first_of(self, new: Block, is_timed: bool) -> Batch:
        """The kernels of new dispatches; their rows are counted with their counters."""
        ids = self._ids(new)
        if is_timed:
            place, kernel = self._kernel(new)
            self._remember(new, ids, place)
            columns = joined(new, {**place, **kernel})
            return self._batches.batch("events", ids, timing=self._timing, **columns, **new.rest())
        place = self._place(new)
        nothing = pa.nulls(len(new), pa.int64())
        self._remember(new, ids, {**place, "ts": nothing, "dur": nothing})
        columns = joined(new, {**place, **self._untimed_launch(new)})
        return self._batches.batch("summaries", ids, metric="duration", count=1, **columns, **new.rest())

    def _values(self, block: Block, kernels: Int64) -> Iterator[Batch]:
        """Yields the counters of a long table as children of their kernels, whose indices are `kernels`."""
        self._conversion.report.used(len(block))
        dispatched = self._dispatched.columns(kernels)
        ids, parents = self._ids(block) + 1, dispatched.pop("id").to_numpy()
        names, values = block.get("<counter>"), block.get("<value>")
        assert names is not None and values is not None
        has_time = dispatched["ts"].is_valid()
        timed_rows = has_time.to_numpy(zero_copy_only=False)
        if timed_rows.any():
            place = {name: column.filter(has_time) for name, column in dispatched.items()}
            place |= {"host": self._host, "timing": self._timing}
            yield from self._counter_rows(
                ids[timed_rows], parents[timed_rows], names.filter(has_time), values.filter(has_time), place
            )
        if not timed_rows.all():
            others = pc.invert(has_time)
            kernel = block.get("<name>")
            kernel = names if kernel is None else kernel
            place = {key: dispatched[key].filter(others) for key in ("device", "stream", "pid")}
            yield self._batches.batch(
                "summaries",
                ids[~timed_rows],
                kind="metric",
                name=kernel.filter(others),
                metric=names.filter(others),
                value=values.filter(others),
                parent=pa.array(parents[~timed_rows]),
                host=self._host,
                **place,
            )

    def _untimed(self, block: Block, counters: list[str]) -> Iterator[Batch]:
        """Yields dispatches without times as summaries, with their counters as children."""
        ids = self._ids(block)
        block, values = counter_values(block, counters, self._conversion.report)
        place, total = self._place(block), block.take("<total>")
        launch = self._untimed_launch(block)
        columns = {**place, **launch, "count": 1}
        if total is not None:
            columns |= {"total": total.cast(pa.float64()), "unit": "ns"}
        yield self._batches.summaries(block, ids, **joined(block, columns))
        for offset, (name, column) in enumerate(values.items()):
            present = column.is_valid()
            owners = ids[present.to_numpy(zero_copy_only=False)]
            if len(owners):
                here = {key: _filtered(place[key], present) for key in ("host", "pid", "device", "stream")}
                yield self._batches.batch(
                    "summaries",
                    owners + 1 + 2 * offset,
                    kind="metric",
                    name=launch["name"].filter(present),
                    metric=name,
                    value=column.filter(present),
                    parent=pa.array(owners),
                    **here,
                )


def _in_order(batches: list[Batch], size: int) -> Iterator[Batch]:
    """Yields the rows of several batches in the order of their ids."""
    for record in dict.fromkeys(batch.record for batch in batches):
        parts = [
            pa.table(columns) for columns in _of_one_type([_plain(b.columns) for b in batches if b.record == record])
        ]
        whole = pa.concat_tables(parts, promote_options="permissive")
        order = np.argsort(whole["id"].to_numpy(), kind="stable")
        for start in range(0, len(order), size):
            part = whole.take(pa.array(order[start : start + size])).combine_chunks()
            yield Batch(record, part.to_batches()[0])


def _of_one_type(parts: list[dict[str, pa.Array]]) -> list[dict[str, pa.Array]]:
    """The same columns; an argument of types that have none in common but JSON text is JSON text in all parts."""
    kinds: dict[str, set[pa.DataType]] = {}
    for part in parts:
        for name, column in part.items():
            kinds.setdefault(name, set()).add(column.type)
    texts = {name for name, types in kinds.items() if name.startswith("args.") and _differ(types)}
    return [
        {name: json_cells(column).cast(pa.binary()) if name in texts else column for name, column in part.items()}
        for part in parts
    ]


def _differ(types: set[pa.DataType]) -> bool:
    """Whether values of these types have no type in common but that of JSON text."""
    plain = {one for one in types if not pa.types.is_null(one)}
    return pa.binary() in plain or (len(plain) > 1 and not all(map(is_number, plain)))


def _plain(columns: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns, with dictionaries decoded."""
    return {
        name: column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for name, column in zip(columns.schema.names, columns.columns, strict=True)
    }


def _is_whole(column: pa.Array | None) -> bool:
    return column is not None and pa.types.is_integer(column.type)


def _filtered(column: Any, rows: pa.BooleanArray) -> Any:
    return column.filter(rows) if isinstance(column, pa.Array) else column
