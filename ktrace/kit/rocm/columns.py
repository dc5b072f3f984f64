"""The columns of dispatches in ROCm's CSV tables: the dispatch's own, counters, and how accurate the times are.

Dispatch_ID, Kernel_Name, ..., wave_size, obj, SQ_WAVES, wave_size_1, obj_1, TCC_HIT_sum      two passes joined
Start_Timestamp 8.1097E+14       rounded to 10 s by a spreadsheet: useless
Start_Timestamp 1.33867422346919e+16      printed as a float: accurate to 10 ns
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.text_cells import by_distinct, floats
from ktrace.kit.columnar.typed_cells import Field, Number, Text, Time, Whole, Word, own_heading
from ktrace.kit.text.headings import cell_quantity
from ktrace.model.arrays import Int64
from ktrace.model.json_text import decoded, json_cells
from ktrace.report import Report

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
    own = dict.fromkeys(name for name in left if not _is_known(name) and not name.startswith(("<", "$")))
    columns = {name: [of for block in blocks if (of := block.get(name)) is not None] for name in own}
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


def _is_known(name: str) -> bool:
    return name.casefold() in _KNOWN or _repeats(name)


def _repeats(name: str) -> bool:
    """Whether a heading is one of the dispatch's own, repeated for a further pass."""
    found = _OF_PASS.fullmatch(name)
    return found is not None and found[1].casefold() in _KNOWN


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
    found = [_missing_digits(cells) for name in ("ts", "end") if (cells := _cells(item, fields.get(name))) is not None]
    if not any(missing.any() for missing in found):
        return None
    missing: Int64 = np.maximum.reduce(found)
    for row in np.flatnonzero(missing).tolist():
        kind = "bad-record" if lost and missing[row] >= _USELESS else "rounded-time"
        report.issue(kind, item.block.where(row), f"a time accurate to 10^{missing[row]} ns")
    return missing


def _cells(item: CsvRows, field: Field | None) -> pa.StringArray | None:
    own = None if field is None else own_heading(item.table, field)
    return None if own is None else item.block.get(own)


def _missing_digits(cells: pa.StringArray) -> Int64:
    odd = pc.fill_null(pc.match_substring_regex(cells, "[eE]"), False)
    if not odd.true_count:
        return np.zeros(len(cells), np.int64)
    found: Int64 = pc.fill_null(by_distinct(cells, _missing, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def _missing(text: str | None) -> int:
    figure = cell_quantity(text) if text and "e" in text.casefold() else None
    exponent = figure.number.as_tuple().exponent if figure else 0
    return max(exponent, 0) if isinstance(exponent, int) else 0
