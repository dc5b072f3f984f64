"""From inputs to an output: the only place that knows both a reader and a writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import InputError, UsageError
from ktrace.input.expand import paths_of
from ktrace.output.destination import gpu_option, output_format, writing_to
from ktrace.pipeline.read import Progress, read_selected
from ktrace.report import Report

if TYPE_CHECKING:
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


def require_rows(report: Report, paths: Sequence[str]) -> None:
    """Raises InputError where nothing was written, with what was read instead."""
    if report.written:
        return
    left = [
        f"{count:,} x {what}"
        for ledger in (report.reader, *report.stages)
        for what, count in ledger.removed.most_common()
    ]
    details = [detail for issue in report.issues.values() for _, detail in issue.places[:1] if detail]
    said = f": {', '.join(left)}" if left else ""
    first = f" ({details[0]})" if details else ""
    raise InputError(
        f"there is nothing to write: {report.reader.taken:,} records gave {report.rows_read:,} rows{said}{first}",
        path=paths[0] if len(paths) == 1 else None,
        expected="at least one event, summary or link",
        remedy="name the format with --from if it was taken for another one; ktrace info says what was seen",
    )


def convert(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    from_: str | None = None,
    to: str | None = None,
    table: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    jobs: int | None = None,
    metrics: str | Path | None = None,
    launch_skip: int | None = None,
    classify: bool | str | Path = False,
    crop: Crop | None = None,
    filter: Filter | None = None,
    split_by: str | None = None,
    gpu: str = "auto",
    keep_export: bool = False,
) -> Report:
    """Converts one or several inputs to one output and returns the account of it.

    `src` and `dst` are paths; '-' is standard input and output. `from_` and `to` are format names that
    override what the input looks like and what the output's name says. `table` is one record (events,
    summaries, links, catalog) to write with its own columns alone. `strict` fails where anything had to be
    repaired, skipped or cut off. `progress` is told how many bytes of the input were taken. `jobs` is how many
    processes may work, by default as many as there are cores. `metrics` is a table of launches, such as those of
    Nsight Compute, whose metrics become counters of the same kernels in `src`; `launch_skip` says how many launches of
    `src` came before the first of them, where not all have metrics. `filter` says which rows to write, by kind, name,
    device and more, `crop` which part of the time.
    `classify` fills operation, library, precision, layer and a short name of device work where the source doesn't say
    them; a path is a file of rules that come first. `split_by` writes numbered parts (run.000.perfetto, ...) of a time
    ("time=10s"), a size in bytes ("size=500MB") or a step each ("step"), which stand in `Report.parts`. `gpu` says how
    a Perfetto trace shows device work: as the "stages" of a GPU, which viewers from v55 on show with all their data, or
    as "slices" on a track a stream, which any viewer does; "auto" is stages.
    `keep_export` keeps what a vendor's program makes of a report beside it (run.sqlite of run.nsys-rep), or takes the
    one that is there.

    Raises InputError, also where there is nothing to write, StrictFailure, OutputError or UsageError; then there is no
    output.
    """
    paths = paths_of(src)
    report = Report(strict=strict)
    report.output = str(dst)
    fmt = output_format(str(dst), to)
    if table and fmt.timeline:
        raise UsageError(f"--table is for tables, {fmt.name} is a timeline", remedy="csv, parquet, jsonl or json")
    if launch_skip is not None and metrics is None:
        raise UsageError("--launch-skip is for --metrics", remedy="leave it out, or name the metrics")
    if table and split_by:
        raise UsageError("--table writes one file", remedy="leave out --split-by")
    options = gpu_option(gpu, fmt) | ({"table": table} if table else {})
    conversion = Conversion(report, options=options)
    with writing_to(str(dst), fmt, split_by, overwrite=overwrite) as write:
        batches = read_selected(
            paths,
            report,
            format=from_,
            progress=progress,
            jobs=jobs,
            metrics=None if metrics is None else str(metrics),
            launch_skip=launch_skip,
            classify=classify,
            crop=crop,
            filter=filter,
            keep_export=keep_export,
        )
        write(batches, conversion)
        report.require_balance()
        if table != "catalog":
            require_rows(report, paths)
    return report
