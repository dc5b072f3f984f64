"""Reads Ascend's CSV files: rows with times as events, statistics as summaries; a folder of them is one trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source
from ktrace.kit.ascend.folder import CSV
from ktrace.kit.ascend.own_files import own_files
from ktrace.kit.ascend.tasks import DEVICE
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .counters import COUNTERS, counters
from .events import EVENTS, EventRows, Listed
from .statistics import add_statistics
from .tables import table_kind

#: The ids of a file in a folder begin at this times its number: enough for 2^40 lines.
_IDS_OF_FILE = 1 << 44

#: Times after this (ns; September 2001) count from 1970.
_SINCE_1970 = 10**18


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields tasks, calls, markers, allocations, counters; summaries from statistics."""
    rows = RowBuilder(conversion)
    files = own_files(source, CSV, conversion) if source.is_folder else [("", source)]
    devices: set[int] = set()
    listed = Listed()
    latest: list[int] = []
    bad = BadFiles(conversion.report)
    with_tasks = any(PurePath(path).name.startswith("task_time") for path, _ in files)
    for number, (path, file) in enumerate(files):
        blocks = CsvBlocks(file, conversion, table_kind, place=f"{path}: " if path else "")
        events = EventRows(conversion, number * _IDS_OF_FILE, listed, with_tasks=with_tasks)
        for item in bad.left_out(file.path, iter(blocks)):
            if not isinstance(item, CsvRows):
                continue
            for batch in _batches(item, events, rows, conversion, number * _IDS_OF_FILE):
                _note(batch, devices, latest)
                yield batch
            yield from rows.ready()
    bad.end()
    for device in sorted(devices):
        rows.fact("device", id=_IDS_OF_FILE * len(files) + device, device=device, facts=DEVICE)
    if latest and latest[0] > _SINCE_1970:
        rows.fact("clock", id=_IDS_OF_FILE * len(files) - 1, facts={"kind": "unix", "unix_ns": 0})
    yield from rows.rest()


def _batches(
    item: CsvRows, events: EventRows, rows: RowBuilder, conversion: Conversion, first_id: int
) -> Iterator[Batch]:
    what = item.table.what
    if what in EVENTS:
        yield from events.rows(item)
    elif what in COUNTERS:
        yield from counters(item, conversion, first_id)
    else:
        add_statistics(item, rows, conversion, first_id)


def _note(batch: Batch, devices: set[int], latest: list[int]) -> None:
    """Notes the devices of rows, and their greatest time."""
    if batch.record == "events" and len(batch):
        devices.update(number for number in batch.column("device").unique().to_pylist() if number is not None)
        last = max(batch.column("ts")[0].as_py(), *latest) if latest else batch.column("ts")[0].as_py()
        latest[:] = [last]
