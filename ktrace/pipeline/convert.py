"""From inputs to one output: a reader, the stages between, a writer; of several inputs one timeline, `ktrace.merge`.

rank0.json.gz ─┐
rank1.json.gz ─┼─► align ─► crop, filter ─► run.perfetto, run.trace.json, run.parquet, ...
run.sqlite    ─┘                            run.tar: a .perfetto for each source, which the viewer merges

A `Destination` is where a conversion writes: the format, its form, and whether to one output or to numbered parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import InputError, UsageError
from ktrace.input.detection import by_name
from ktrace.input.expand import names_several, paths_of
from ktrace.input.format import Format, all_formats, builtin_formats
from ktrace.input.limits import limited
from ktrace.input.source import COMPRESSED
from ktrace.model.batch import Batch
from ktrace.output import Sink, replaces, writing
from ktrace.output.write import open_sink, write_batches
from ktrace.pipeline.read import Progress, read_selected
from ktrace.pipeline.selection import Options, Selection, Unaligned, selected
from ktrace.report import Report, counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.stages.align import Align

#: Ways in which Perfetto traces show device work; "auto" means "stages".
GPU_FORMS = ("auto", "stages", "slices", "stages-by-stream", "slices-by-stream")

#: Writes batches to an output.
Write = Callable[[Iterable[Batch], Conversion], None]


def output_format(path: str, to: str | None = None) -> Format:
    """Returns the format of an output: `to`, otherwise the format with the longest file pattern that matches the name.

    Raises UsageError if neither decides the format.
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
        f"can't tell the output format from the name '{path}'", expected=f"a name like {patterns}", remedy="use --to"
    )


def gpu_option(gpu: str, fmt: Format) -> dict[str, str]:
    """Returns the conversion option that chooses how device work is shown, one of `GPU_FORMS`.

    Raises UsageError for an unknown form, and for a format that has only one.
    """
    if gpu not in GPU_FORMS:
        raise UsageError(f"'{gpu}' isn't a form of device work", expected=", ".join(GPU_FORMS))
    if gpu != "auto" and not fmt.overlap:
        raise UsageError(f"--gpu is for Perfetto, {fmt.name} has one form", remedy="leave it out")
    return {"gpu": gpu}


@contextmanager
def writing_to(path: str, fmt: Format, split_by: str | None, *, overwrite: bool = False) -> Iterator[Write]:
    """Yields a function that writes batches to an output or to its numbered parts. Files appear when the block ends."""
    if split_by is None:
        with writing(open_sink(path, fmt, overwrite=overwrite)) as sink:
            yield lambda batches, conversion: _write(batches, fmt, sink, conversion)
        return
    from ktrace.output.parts import NumberedOutputs, write_parts
    from ktrace.stages.split import SplitBy

    by = SplitBy.parse(split_by)
    with writing(NumberedOutputs(path, fmt, overwrite=overwrite)) as parts:
        yield lambda batches, conversion: write_parts(batches, by, parts, conversion)


def _write(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Writes batches to an output, and notes which files of an overwritten folder aren't ktrace's."""
    write_batches(batches, fmt, sink, conversion)
    if sink.others:
        conversion.report.issue("other-files", sink.path, ", ".join(sink.others), rows=0)


#: How many places the error names where nothing was written.
_PLACES = 4


def require_rows(report: Report, paths: Sequence[str]) -> None:
    """Raises InputError where nothing was written, with what was read instead."""
    if report.written:
        return
    left = [
        f"{count:,} x {what}"
        for ledger in (report.reader, *report.stages)
        for what, count in ledger.removed.most_common()
    ]
    worst = sorted(report.issues.values(), key=lambda issue: -issue.severity)
    places = [f"{where}: {detail}" for issue in worst for where, detail in issue.places if detail]
    said = f": {', '.join(left)}" if left else ""
    seen = f" ({'; '.join(places[:_PLACES])}{'; ...' if len(places) > _PLACES else ''})" if places else ""
    gave = f"{counted(report.reader.taken, 'record')} gave {counted(report.rows_read, 'row')}"
    raise InputError(
        f"there is nothing to write: {gave}{said}{seen}",
        path=paths[0] if len(paths) == 1 else None,
        expected="at least one event, summary or link",
        remedy="name the format with --from if it was read as another one; ktrace info says what was seen",
    )


def note_canonical(report: Report, fmt: Format, to: str | None) -> None:
    """Notes that the output isn't for viewers, where its name alone made a timeline canonical JSON."""
    if fmt.name == "json" and to is None and report.timed:
        report.issue("canonical-json", str(report.output), rows=0)


@limited
def convert(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    selection: Selection | None = None,
    to: str | None = None,
    table: str | None = None,
    formulas: bool = False,
    gpu: str = "auto",
    strict: bool = False,
    overwrite: bool | None = None,
    progress: Progress | None = None,
    account: Callable[[Report], None] | None = None,
    **options: Unpack[Options],
) -> Report:
    """Converts one or several inputs to one output.

    Several inputs on one timeline are aligned as by `merge` with "auto", unless the selection has an `align`; a table
    keeps the times of each input.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs: files, folders, patterns or URLs; "-" is standard input.
    dst : path
        The output; "-" is standard output. Its name decides the format, unless `to` does.
    selection : Selection, optional
        Which rows to read and what to add to them.
    to : str, optional
        Format of the output.
    table : {"events", "summaries", "links", "catalog"}, optional
        Write one record alone, with its own columns (csv, parquet, jsonl, json).
    formulas : bool
        Write texts of a CSV that begin like formulas (=, +, -, @) as they are; by default an apostrophe is put before
        them, since spreadsheets would evaluate them.
    gpu : {"auto", "stages", "slices", "stages-by-stream", "slices-by-stream"}
        How a Perfetto trace shows device work: as "stages" of a GPU, which viewers from v55 on show with all their
        data, or as "slices" on a track for each stream, which any viewer shows. "auto" is stages. Many streams of
        graphs are folded into lanes, except "by-stream".
    strict : bool
        Fail where anything had to be repaired, skipped or cut off.
    overwrite : bool, optional
        Replace an output that exists; by default in a notebook alone, where cells run again.
    progress : callable, optional
        Called with the number of input bytes each time some were read.
    account : callable, optional
        Called with the report when all is written, before the output appears; if it raises, no output appears.
    **options
        The fields of `Selection` as keywords: `from_`, `jobs`, `classify`, `rules`, `crop`, `filter`, `metrics`,
        `launch_skip`, `execution_trace`, `align`, `split_by`, `budget`, `keep_export`, `map`, `limits`. They
        override those of `selection`.

    Returns
    -------
    Report
        The account of the conversion: records read, rows written, what was repaired or skipped. `Report.parts` lists
        the outputs of `split_by`.

    Raises
    ------
    InputError
        The input can't be read, nothing passes the filter, or nothing in it can be written.
    StrictFailure
        `strict`, and something had to be repaired, skipped or cut off.
    OutputError
        The output can't be written, or exists.
    UsageError
        Options contradict each other.

    No output exists after an error.

    Examples
    --------
    >>> import ktrace
    >>> report = ktrace.convert("samples/doppler/prefill-and-three-decodes.log", "run.perfetto")
    >>> report.written
    88
    """
    chosen = selected(selection, options)
    paths = paths_of(src)
    report = Report(strict=strict)
    report.output = str(dst)
    fmt = output_format(str(dst), to)
    if table and fmt.timeline:
        raise UsageError(f"--table is for tables, {fmt.name} is a timeline", remedy="csv, parquet, jsonl or json")
    if chosen.budget is not None and not fmt.timeline:
        raise UsageError(f"--budget is for timelines, {fmt.name} is none", remedy="leave it out, or name it .perfetto")
    if table and chosen.split_by:
        raise UsageError("--table writes one file", remedy="leave out --split-by")
    if formulas and fmt.name != "csv":
        raise UsageError(f"--formulas is for CSV, {fmt.name} has no formulas", remedy="leave it out")
    form = ({"table": table} if table else {}) | ({"formulas": "yes"} if formulas else {})
    conversion = Conversion(report, options=gpu_option(gpu, fmt) | form)
    if fmt.timeline and chosen.align is None and names_several(paths, chosen.from_):
        from ktrace.stages.align import Align

        chosen = chosen.replace(align=Align("auto"))
    with writing_to(str(dst), fmt, chosen.split_by, overwrite=replaces(overwrite)) as write:
        write(read_selected(paths, report, chosen, progress=progress), conversion)
        report.require_balance()
        report.require_match()
        if table != "catalog":
            require_rows(report, paths)
        if chosen.align is None and len(report.timed) > 1:
            report.issue("not-aligned", f"{len(report.timed):,} inputs", rows=0)
        note_canonical(report, fmt, to)
        if account:
            account(report)
    return report


@limited
def merge(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    align: str | Align | None = None,
    offsets: Mapping[str, int | str] | None = None,
    keep_shift: bool = False,
    selection: Selection | None = None,
    to: str | None = None,
    gpu: str = "auto",
    strict: bool = False,
    overwrite: bool | None = None,
    progress: Progress | None = None,
    account: Callable[[Report], None] | None = None,
    **options: Unpack[Unaligned],
) -> Report:
    """Merges inputs of any formats into one output, all times in the clock of the first one.

    Parameters
    ----------
    src : path or sequence of paths
        Files, patterns and folders.
    dst : path
        The output, of any format that ktrace writes, or an archive `*.tar` with a Perfetto trace for each source, which
        viewers from v58 on merge.
    align : str or Align
        How clocks are brought together: "auto" (the default), "unix", "collective", "marker NAME" or "none".
    offsets : mapping, optional
        Path, file name or label of an input -> ns, or text such as "+1.5ms", added to its times after the alignment.
    keep_shift : bool
        Keep what was added to times by hand when they were exported (`nsys export --ts-shift`); "unix" undoes it
        otherwise.
    selection, to, gpu, strict, overwrite, progress, account, **options
        As for `ktrace.convert`. A crop or filter is applied after the alignment.

    Returns
    -------
    Report
        The account of the merge. `Report.alignment` records what was done with each source.

    Raises
    ------
    InputError
        A source can't be aligned as wanted, or what `ktrace.convert` raises. No output exists after an error.

    Examples
    --------
    >>> import ktrace
    >>> ranks = [f"samples/kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
    >>> report = ktrace.merge(ranks, "run.perfetto", align="none")
    >>> len(report.alignment)
    2
    """
    chosen = selected(selection, options)
    alignment = _alignment(align if align is not None else chosen.align or "auto", offsets, keep_shift)
    chosen = chosen.replace(align=alignment)
    inputs = paths_of(src)
    if not inputs:
        raise UsageError("there is nothing to merge", expected="files, patterns or folders")
    report = Report(strict=strict)
    report.output = str(dst)
    archive = str(dst).endswith(".tar") and to is None
    if archive and chosen.split_by:
        raise UsageError("--split-by doesn't work for archives, which have one file a source", remedy="another output")
    fmt = output_format("members.perfetto" if archive else str(dst), to)
    conversion = Conversion(report, options=gpu_option(gpu, fmt))
    with _writing(str(dst), fmt, archive, chosen.split_by, replaces(overwrite)) as write:
        write(read_selected(inputs, report, chosen, progress=progress), conversion)
        report.require_balance()
        report.require_match()
        require_rows(report, inputs)
        note_canonical(report, fmt, to)
        if account:
            account(report)
    return report


def _alignment(align: str | Align, offsets: Mapping[str, int | str] | None, keep_shift: bool) -> Align:
    """Returns the alignment with the offsets that are added to it."""
    if isinstance(align, str):
        from ktrace.stages.align import Align

        alignment = Align.parse(align, offsets)
    else:
        alignment = replace(align, offsets={**align.offsets, **(offsets or {})})
    return replace(alignment, keep_shift=alignment.keep_shift or keep_shift)


@contextmanager
def _writing(path: str, fmt: Format, archive: bool, split_by: str | None, overwrite: bool) -> Iterator[Write]:
    """Yields a function that writes batches to the output, which appears at the end of the block."""
    if not archive:
        with writing_to(path, fmt, split_by, overwrite=overwrite) as write:
            yield write
        return
    from ktrace.output.parts import write_archive

    with writing(open_sink(path, fmt, overwrite=overwrite)) as sink:
        yield lambda batches, conversion: write_archive(batches, fmt, sink, conversion)
