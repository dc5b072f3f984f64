"""Intel VTune Profiler: computing tasks, as `vtune -report hotspots -group-by computing-task -format csv` writes them.

    Computing Task;Work Size:Global;Computing Task:Total Time;Computing Task:Average Time;Computing Task:Instance Count
    gemm_kernel;4096 x 256;1.234567;0.012346;100
    zeCommandListAppendMemoryCopy;;0.034567;0.001017;34
    [Outside any task];;0;;

A row is a kernel, a copy or a fill with all its launches; a kernel has a row for each SIMD width. Times are seconds
where the heading states no unit. Which columns there are is up to `-column`: the others (XVE Array:Active, GPU L3:Miss
Ratio, ...) are arguments. `-csv-delimiter` is a comma, a tab or a semicolon. What samples found outside any task is
no work.

Facts: Intel's user guide of VTune (command line, report and csv-delimiter); scripts that read these reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.typed_cells import Field, Text, Time, Whole, typed
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import find_csv
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TASKS = ("Computing Task", "Source Computing Task")
_TOTAL = "Computing Task:Total Time"

_FIELDS: dict[str, Field] = {
    "name": Text(*_TASKS),
    "total": Time(_TOTAL),
    "avg": Time("Computing Task:Average Time"),
    "count": Whole("Computing Task:Instance Count", "Instance Count"),
}

#: The row of what no task did.
_OUTSIDE = "[Outside any task]"


def _is_report(cells: Sequence[str]) -> bool | None:
    """Returns True for headings with tasks and their time, None for any other line."""
    plain = {cell.partition("(")[0].strip() for cell in cells}
    return True if plain.intersection(_TASKS) and _TOTAL in plain else None


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of a report of tasks."""
    for number, _ in find_csv(sample.lines[:100], _is_report):
        return Match(Score.DIALECT, f"has the columns of VTune's computing tasks (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each task."""
    facts, batches = RowBuilder(conversion, first_id=0), BatchBuilder(conversion)
    facts.fact("source", facts={"tool": "Intel VTune Profiler"})
    for item in CsvBlocks(source, conversion, _is_report):
        if isinstance(item, CsvRows):
            block = typed(item, _FIELDS, conversion.report, {"total": "s", "avg": "s"})
            is_outside = pc.equal(block.get("<name>"), _OUTSIDE)
            conversion.report.used(pc.sum(is_outside).as_py() or 0, outcome="outside any task")
            block = block.filter(pc.invert(is_outside))
            block = block.sound(block.or_nulls("<total>").is_valid(), f"no {_TOTAL}", conversion.report)
            if len(block):
                columns: dict[str, Any] = {name: block.take(f"<{name}>") for name in _FIELDS}
                columns["kind"] = by_distinct(columns["name"], lambda name: device_work(name)[0], pa.string())
                ids = block.numbers.to_numpy()
                yield batches.summaries(block, ids, unit="ns", table=item.table.ordinal, **columns)
    yield from facts.rest()


FORMAT = Format(
    "vtune",
    "Intel VTune: time of computing tasks, a report as CSV",
    patterns=("*.csv", "*.tsv"),
    probe=probe,
    read=read,
    words=("computing task:total time",),
    prose=True,
)
