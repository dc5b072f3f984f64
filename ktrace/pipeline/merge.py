"""Many inputs into one timeline: `ktrace.merge`.

rank0.json.gz ─┐
rank1.json.gz ─┼─► align ─► crop, filter ─► run.perfetto, run.trace.json, run.parquet, ...
run.sqlite    ─┘                            run.tar: a .perfetto for each source, which the viewer merges
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.expand import paths_of
from ktrace.input.format import Format
from ktrace.input.limits import limited
from ktrace.output.destination import Write, gpu_option, output_format, writing_to
from ktrace.output.sink import open_sink, writing
from ktrace.pipeline.convert import note_canonical, require_rows
from ktrace.pipeline.read import Progress, read_selected
from ktrace.pipeline.selection import Selection, Unaligned, selected
from ktrace.report import Report
from ktrace.stages.align import Align

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    overwrite: bool = False,
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
    wanted = _alignment(align if align is not None else chosen.align or "auto", offsets, keep_shift)
    chosen = chosen.but(align=wanted)
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
    with _writing(str(dst), fmt, archive, chosen.split_by, overwrite) as write:
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
        wanted = Align.of(align, offsets)
    else:
        wanted = replace(align, offsets={**align.offsets, **(offsets or {})})
    return replace(wanted, keep_shift=wanted.keep_shift or keep_shift)


@contextmanager
def _writing(path: str, fmt: Format, archive: bool, split_by: str | None, overwrite: bool) -> Iterator[Write]:
    """Yields a function that writes batches to the output, which appears at the end of the block."""
    if not archive:
        with writing_to(path, fmt, split_by, overwrite=overwrite) as write:
            yield write
        return
    from ktrace.output.archive import write_archive

    with writing(open_sink(path, fmt, overwrite=overwrite)) as sink:
        yield lambda batches, conversion: write_archive(batches, fmt, sink, conversion)
