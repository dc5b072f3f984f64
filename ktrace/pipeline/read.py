"""From inputs to batches: what is read, and the steps that options ask for.

paths ──► inputs ──► readers ──► align ──► metrics ──► classify ──► crop ──► filter ──► batches
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktrace.conversion import Conversion, Span
from ktrace.errors import InputError, KtraceError
from ktrace.input.detection import by_name, choose
from ktrace.input.expand import expanded, labels, open_input
from ktrace.input.format import Format
from ktrace.input.relabel import Labels
from ktrace.input.source import Source, printable
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import to_batch
from ktrace.report import Report
from ktrace.stages.pair import pair_halves

if TYPE_CHECKING:
    from ktrace.model.arrays import Int64
    from ktrace.stages.align import Align
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter

Progress = Callable[[int], None]

#: Columns by which crop, filter and classify decide, beside those that are never null.
_DECIDING = frozenset(
    {*TRACK_COLUMNS, "parent", "dur", "correlation", "event", "bind", "scope"}
    | {"short_name", "operation", "library", "precision", "layer"}
)

#: Columns by which clocks are aligned.
_ALIGNING = frozenset({"ts", "dur", "kind", "name", "comm", "comm_seq", "bytes"})


def read_batches(
    paths: Sequence[str],
    report: Report,
    *,
    format: str | None = None,
    batch_rows: int = 65_536,
    progress: Progress | None = None,
    jobs: int = 1,
    columns: frozenset[str] | None = None,
    ids: Int64 | None = None,
    ranks: frozenset[int] | None = None,
    labelled: Labels | None = None,
    span: Span | None = None,
    keep_export: bool = False,
) -> Generator[Batch, None, None]:
    """The batches of all inputs, one after the other, each with facts on its source first.

    A path may be a pattern or a folder: one trace where a format claims it, else the traces in it. `columns` are those
    that will be looked at, `ids` those of the rows, `ranks` those of the sources, all by default; a reader may leave
    out others. No two inputs have rows of one source label; `labelled` is told of which input each is. `span` is the
    part of a single input that is read, with what it says beside its events where that part is the last.
    `keep_export` is that of `ktrace.convert`.

    Raises InputError and its kin at the first batch of an input that can't be read.
    """
    found = expanded(paths, report, format)
    taken = Labels() if labelled is None else labelled
    options = {"keep_export": "yes"} if keep_export else {}
    for one, wanted in zip(found, labels(found), strict=True):
        label = taken.free(wanted)
        report.path = one.path
        conversion = Conversion(
            report,
            label,
            batch_rows,
            options,
            progress=progress,
            jobs=jobs,
            columns=columns,
            ids=ids,
            ranks=ranks,
            span=span,
        )
        source, fmt = open_input(one, label, conversion)
        report.inputs.append({"path": one.path, "format": fmt.name, "source": label})
        yield from taken.apart(_batches(source, fmt, conversion), one.path, report)
    report.path = None


def _batches(source: Source, fmt: Format, conversion: Conversion) -> Iterator[Batch]:
    """The batches of one input, counted."""
    if not fmt.writes:  # A canonical input brings its own facts.
        yield to_batch("catalog", [_source_fact(source, fmt)])
    try:
        for batch in fmt.read(source, conversion):
            conversion.report.rows[batch.record] += len(batch)
            yield batch
    except OSError as error:  # of the reader alone: what fails behind it isn't thrown in here
        why = f"can't be read: {error.strerror or error}"
        raise InputError(why, path=source.path, remedy="check the disk, and the space in TMPDIR") from error


def _source_fact(source: Source, fmt: Format) -> dict[str, Any]:
    facts = dump_json({"path": printable(source.path), "format": fmt.name})
    return {"entity": "source", "source": source.label, "id": 0, "name": source.label, "facts": facts}


def read_selected(
    paths: Sequence[str],
    report: Report,
    *,
    format: str | None = None,
    progress: Progress | None = None,
    jobs: int | None = None,
    columns: frozenset[str] | None = None,
    align: Align | None = None,
    metrics: str | None = None,
    launch_skip: int | None = None,
    classify: bool | str | Path = False,
    crop: Crop | None = None,
    filter: Filter | None = None,
    span: Span | None = None,
    keep_export: bool = False,
) -> Iterator[Batch]:
    """The rows of all inputs that are wanted, with what options add to them; see `ktrace.convert` for their meaning.

    `columns` and `span` as in `read_batches`; what the steps need beside `columns` is read, too. Begins and ends are
    paired where there is a crop or filter. Raises InputError and its kin.
    """
    labelled = Labels()
    if columns is not None:
        columns |= _ALIGNING if align is not None else frozenset()
        columns |= _DECIDING if classify or crop is not None or filter is not None else frozenset()
        columns = None if metrics is not None else columns
    if crop is not None and align is None and metrics is None and (known := _columnar(paths, format)):
        cropped = _cropped_twice(paths, report, known, progress, columns, classify, crop)
        return cropped if filter is None else _part(cropped, None, filter, report)
    apart = crop is None and align is None and metrics is None  # these look at other ranks, too
    batches: Iterator[Batch] = read_batches(
        paths,
        report,
        format=format,
        progress=progress,
        jobs=jobs or cores(),
        columns=columns,
        ranks=frozenset(filter.ranks) if apart and filter and filter.ranks else None,
        labelled=labelled,
        span=span,
        keep_export=keep_export,
    )
    if align is not None:
        from ktrace.stages.align import aligned

        batches = aligned(batches, align, report, labelled.inputs)
    if metrics is not None:
        batches = _joined(batches, metrics, report, launch_skip)
    batches = _classified(batches, classify, report)
    if crop is not None or filter is not None:
        batches = _part(batches, crop, filter, report)
    return batches


def _joined(batches: Iterator[Batch], path: str, report: Report, skip: int | None) -> Iterator[Batch]:
    """The batches with the metrics that a table has of their kernels."""
    from ktrace.stages.metrics.stage import read_launches, with_metrics

    account = Report(strict=report.strict)
    measured = read_launches(read_batches([path], account))
    if not measured.launches:
        raise InputError(
            "has no launches with metrics",
            path=path,
            expected="a report of Nsight Compute, or what it prints",
            remedy="ncu --set full -o metrics ./app, then --metrics metrics.ncu-rep",
        )
    report.merge(account)
    report.inputs += account.inputs
    return with_metrics(batches, measured, report, skip)


def _classified(batches: Iterator[Batch], classify: bool | str | Path, report: Report) -> Iterator[Batch]:
    """The batches with what the names of device work say, where that is wanted."""
    if not classify:
        return batches
    from ktrace.naming.taxonomy import taxonomy
    from ktrace.stages.classify import with_operations

    return with_operations(batches, taxonomy(None if isinstance(classify, bool) else classify), report)


def _columnar(paths: Sequence[str], format: str | None) -> str | None:
    """The format of a single input whose columns can be read apart, and again; None of others."""
    if len(paths) != 1:
        return None
    source = Source(paths[0])
    if not (source.is_folder or Path(paths[0]).is_file()):
        return None
    try:
        known = by_name(format) if format else choose(source)
    except KtraceError:  # told when it is read
        return None
    return known.name if known.columnar else None


def _cropped_twice(
    paths: Sequence[str],
    report: Report,
    format: str,
    progress: Progress | None,
    columns: frozenset[str] | None,
    classify: bool | str | Path,
    crop: Crop,
) -> Iterator[Batch]:
    """The rows of a part, by a first reading of what decides and a second one of these rows."""
    from ktrace.stages.select.crop_columnar import cropped_twice

    def deciding(needed: frozenset[str]) -> Iterator[Batch]:
        found = read_batches(paths, report, format=format, progress=progress, columns=needed)
        return _classified(found, classify, report)

    def whole(ids: Int64, account: Report) -> Iterator[Batch]:
        found = read_batches(paths, account, format=format, columns=columns, ids=ids)
        return _classified(found, classify, account)

    return cropped_twice(deciding, whole, crop, report)


def _part(batches: Iterator[Batch], crop: Crop | None, filter: Filter | None, report: Report) -> Iterator[Batch]:
    """The rows that are wanted; whether they are is known of a slice, not of its halves."""
    from ktrace.stages.select.crop import cropped
    from ktrace.stages.select.filter import filtered

    batches = pair_halves(batches, report)
    if crop is not None:
        batches = cropped(batches, crop, report)
    return batches if filter is None else filtered(batches, filter, report)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_batches(
    path: str | Path, *, from_: str | None = None, batch_rows: int = 65_536, jobs: int | None = None
) -> Iterator[Iterator[Batch]]:
    """The batches of an input, streamed in bounded memory:

    with ktrace.open_batches("run.log") as batches:
        for batch in batches:
            print(batch.record, len(batch))

    `from_` is a format that overrides what the input looks like, `batch_rows` the greatest size of a batch, `jobs` how
    many processes may work, by default as many as there are cores. Taking the batches raises InputError and its kin for
    what can't be read.
    """
    report = Report()
    batches = read_batches([str(path)], report, format=from_, batch_rows=batch_rows, jobs=jobs or cores())
    try:
        yield pair_halves(batches, report)
    finally:
        batches.close()
