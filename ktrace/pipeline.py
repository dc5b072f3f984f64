"""From inputs to an output: the only place that knows both a reader and a writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import InputError, OutputError, UsageError
from ktrace.input.detection import by_name
from ktrace.input.expand import paths_of
from ktrace.input.format import Format, all_formats, builtin_formats
from ktrace.input.source import COMPRESSED
from ktrace.model.batch import Batch
from ktrace.output.sink import Sink, writing
from ktrace.parallel.prefetch import ahead
from ktrace.reading import Progress, read_selected
from ktrace.report import Ledger, Report
from ktrace.stages.layout.tables import layout
from ktrace.stages.order.timeline import order
from ktrace.stages.pair import paired

if TYPE_CHECKING:
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


#: How a trace shows device work where its format has two ways; "auto" is "stages".
GPU_FORMS = ("auto", "stages", "slices")

#: Writes batches to an output.
Write = Callable[[Iterable[Batch], Conversion], None]


def output_format(path: str, to: str | None = None) -> Format:
    """The format that an output is written in: by `to`, else by the longest file pattern that fits its name.

    Raises UsageError where neither says.
    """
    if to:
        return by_name(to, writes=True)
    name = Path(path).name
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    for formats in (builtin_formats, all_formats):
        best = max((fmt for fmt in formats() if fmt.writes), key=lambda fmt: fmt.matches(name))
        if best.matches(name):
            return best
    patterns = " ".join(pattern for fmt in all_formats() if fmt.writes for pattern in fmt.patterns)
    raise UsageError(
        f"can't tell the output format from the name '{path}'", expected=f"a name like {patterns}", remedy="say --to"
    )


def gpu_option(gpu: str, fmt: Format) -> dict[str, str]:
    """The option of a conversion that says how device work is shown, one of `GPU_FORMS`.

    Raises UsageError for another word, and for a format that has one form alone.
    """
    if gpu not in GPU_FORMS:
        raise UsageError(f"'{gpu}' isn't a form of device work", expected=", ".join(GPU_FORMS))
    if gpu != "auto" and not fmt.overlap:
        raise UsageError(f"--gpu is for Perfetto, {fmt.name} has one form", remedy="leave it out")
    return {"gpu": gpu}


def open_sink(path: str, fmt: Format, *, overwrite: bool = False) -> Sink:
    """The output of that name: a folder where it is called so ("run.parquet/") or is one already.

    Raises OutputError where it can't be, among others for a folder of a format that is one file.
    """
    if path.endswith("/") and not fmt.folder:
        raise OutputError(f"is named as a folder, but {fmt.name} is one file", path=path, remedy="leave out the '/'")
    folder = fmt.folder and (path.endswith("/") or Path(path).is_dir())
    return Sink(path, overwrite=overwrite, folder=folder)


def write_batches(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Takes the batches through the stages that the format needs into its writer."""
    report = conversion.report
    writer = fmt.open_writer(sink, conversion)
    if fmt.timeline:
        lanes = not fmt.overlap or conversion.options.get("gpu") == "slices"
        timeline = order(layout(batches, report), report, device_lanes=lanes)
        ledger = report.stage(fmt.name)
        writer.start(timeline)
        for ordered in ahead(timeline.batches()):
            rows = len(ordered) + ordered.link_ends
            _account(report, ledger, rows, writer.write(ordered))
    else:
        batches = paired(batches, report)
        table = conversion.options.get("table")
        if table:
            batches = _only(table, batches, report.stage("--table"))
        ledger = report.stage(fmt.name)
        for batch in batches:
            kept = writer.write(batch)
            if batch.record != "catalog":
                _account(report, ledger, len(batch), kept)
    writer.close()


@contextmanager
def writing_to(path: str, fmt: Format, split_by: str | None, *, overwrite: bool = False) -> Iterator[Write]:
    """What writes batches to an output, or to numbered parts of it, which appear at the end of the block."""
    if split_by is None:
        with writing(open_sink(path, fmt, overwrite=overwrite)) as sink:
            yield lambda batches, conversion: write_batches(batches, fmt, sink, conversion)
        return
    from ktrace.output.parts import Parts, write_parts
    from ktrace.stages.split.split_by import SplitBy

    by = SplitBy.of(split_by)
    with writing(Parts(path, fmt, overwrite=overwrite)) as parts:
        yield lambda batches, conversion: write_parts(batches, by, parts, conversion)


def _only(table: str, batches: Iterable[Batch], ledger: Ledger) -> Iterator[Batch]:
    """The batches of one record, and the catalog."""
    for batch in batches:
        if batch.record != "catalog":
            ledger.taken += len(batch)
            if batch.record != table:
                ledger.removed["other records"] += len(batch)
                continue
            ledger.given += len(batch)
        yield batch


def _account(report: Report, ledger: Ledger, rows: int, kept: int) -> None:
    ledger.taken += rows
    ledger.given += kept
    if rows > kept:
        report.issue("not-representable", ledger.stage, f"{rows - kept} rows", rows - kept, stage=ledger)


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
