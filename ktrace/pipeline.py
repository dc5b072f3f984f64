"""From inputs to an output: the only place that knows both a reader and a writer."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktrace.ahead import ahead
from ktrace.conversion import Conversion
from ktrace.detection import by_name
from ktrace.errors import InputError, KtraceError, OutputError, UsageError
from ktrace.format import Format, all_formats, builtin_formats
from ktrace.inputs import expanded, labels, open_input
from ktrace.jsontext import dump_json
from ktrace.layout import layout
from ktrace.model import Batch
from ktrace.order import order
from ktrace.paired import paired
from ktrace.report import Ledger, Report
from ktrace.rows import to_batch
from ktrace.sink import Sink, writing
from ktrace.source import COMPRESSED, Source, printable

if TYPE_CHECKING:
    from ktrace.taxonomy import Taxonomy
    from ktrace.transforms.crop import Crop
    from ktrace.transforms.filter import Filter

Progress = Callable[[int], None]


def read_batches(
    paths: Sequence[str],
    report: Report,
    *,
    format: str | None = None,
    batch_rows: int = 65_536,
    progress: Progress | None = None,
    jobs: int = 1,
) -> Generator[Batch, None, None]:
    """The batches of all inputs, one after the other, each with facts on its source first.

    A path may be a pattern or a folder: one trace where a format claims it, else the traces in it.

    Raises InputError and its kin at the first batch of an input that can't be read.
    """
    found = expanded(paths, report, format)
    for one, label in zip(found, labels(found), strict=True):
        report.path = one.path
        conversion = Conversion(report, label, batch_rows, progress=progress, jobs=jobs)
        source, fmt = open_input(one, label, conversion)
        report.inputs.append({"path": one.path, "format": fmt.name, "source": label})
        if not fmt.writes:  # A canonical input brings its own facts.
            yield to_batch("catalog", [_source_fact(source, fmt)])
        try:
            for batch in fmt.read(source, conversion):
                report.rows[batch.record] += len(batch)
                yield batch
        except OSError as error:  # of the reader alone: what fails behind it isn't thrown in here
            why = f"can't be read: {error.strerror or error}"
            raise InputError(why, path=one.path, remedy="check the disk, and the space in TMPDIR") from error
    report.path = None


def _source_fact(source: Source, fmt: Format) -> dict[str, Any]:
    facts = dump_json({"path": printable(source.path), "format": fmt.name})
    return {"entity": "source", "source": source.label, "id": 0, "name": source.label, "facts": facts}


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
        timeline = order(layout(batches, report), report, device_lanes=not fmt.overlap)
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
    filter: Filter | None = None,
    crop: Crop | None = None,
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
    them; a path is a file of rules that come first.

    Raises InputError, StrictFailure, OutputError or UsageError; then there is no output.
    """
    paths = [str(src)] if isinstance(src, (str, Path)) else [str(path) for path in src]
    report = Report(strict=strict)
    report.output = str(dst)
    fmt = output_format(str(dst), to)
    if table and fmt.timeline:
        raise UsageError(f"--table is for tables, {fmt.name} is a timeline", remedy="csv, parquet, jsonl or json")
    if launch_skip is not None and metrics is None:
        raise UsageError("--launch-skip is for --metrics", remedy="leave it out, or name the metrics")
    rules = _rules(classify) if classify else None
    conversion = Conversion(report, options={"table": table} if table else {})
    with writing(open_sink(str(dst), fmt, overwrite=overwrite)) as sink:
        batches: Iterator[Batch] = read_batches(paths, report, format=from_, progress=progress, jobs=jobs or cores())
        if metrics is not None:
            batches = _joined(batches, str(metrics), report, launch_skip)
        if rules is not None:
            from ktrace.transforms.classify import with_operations

            batches = with_operations(batches, rules, report)
        if filter is not None or crop is not None:
            batches = _part(batches, crop, filter, report)
        write_batches(batches, fmt, sink, conversion)
        if not report.balanced():
            raise KtraceError("the account of this conversion doesn't add up", remedy="please report this as a bug")
    return report


def _joined(batches: Iterator[Batch], path: str, report: Report, skip: int | None) -> Iterator[Batch]:
    """The batches with the metrics that a table has of their kernels."""
    from ktrace.transforms.metrics import read_launches, with_metrics

    account = Report(strict=report.strict)
    measured = read_launches(read_batches([path], account))
    if not measured.launches:
        raise InputError(
            "has no launches with metrics",
            path=path,
            expected="a table of Nsight Compute",
            remedy="ncu --csv --page raw ./app > metrics.csv",
        )
    report.merge(account)
    report.inputs += account.inputs
    return with_metrics(batches, measured, report, skip)


def _part(batches: Iterator[Batch], crop: Crop | None, filter: Filter | None, report: Report) -> Iterator[Batch]:
    """The rows that are wanted; whether they are is known of a slice, not of its halves."""
    from ktrace.transforms.crop import cropped
    from ktrace.transforms.filter import filtered

    batches = paired(batches, report)
    if crop is not None:
        batches = cropped(batches, crop, report)
    return batches if filter is None else filtered(batches, filter, report)


def _rules(classify: bool | str | Path) -> Taxonomy:
    """The rules that `convert` was told to classify by."""
    from ktrace.taxonomy import taxonomy

    return taxonomy(None if isinstance(classify, bool) else classify)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_batches(path: str | Path, *, format: str | None = None, batch_rows: int = 65_536) -> Iterator[Iterator[Batch]]:
    """The batches of an input, streamed in bounded memory:

    with ktrace.open_batches("run.log") as batches:
        for batch in batches:
            print(batch.record, len(batch))

    `format` overrides what the input looks like, `batch_rows` is the greatest size of a batch. Taking the batches
    raises InputError and its kin for what can't be read.
    """
    report = Report()
    batches = read_batches([str(path)], report, format=format, batch_rows=batch_rows)
    try:
        yield paired(batches, report)
    finally:
        batches.close()
