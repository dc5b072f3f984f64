"""Many inputs into one timeline: `ktrace.merge`.

rank0.json.gz ─┐
rank1.json.gz ─┼─► align ─► crop, filter ─► run.perfetto, run.trace.json, run.parquet, ...
run.sqlite    ─┘                            run.tar: a .perfetto for each source, which the viewer merges
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.expand import paths_of
from ktrace.input.format import Format
from ktrace.output.destination import Write, gpu_option, output_format, writing_to
from ktrace.output.sink import open_sink, writing
from ktrace.pipeline.convert import require_rows
from ktrace.pipeline.read import Progress, read_selected
from ktrace.report import Report
from ktrace.stages.align import Align

if TYPE_CHECKING:
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


def merge(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    align: str | Align = "auto",
    offsets: Mapping[str, int | str] | None = None,
    from_: str | None = None,
    to: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    jobs: int | None = None,
    classify: bool | str | Path = False,
    crop: Crop | None = None,
    filter: Filter | None = None,
    split_by: str | None = None,
    gpu: str = "auto",
    keep_shift: bool = False,
) -> Report:
    """Merges inputs of any formats into one output, all times in the clock of the first, and returns the account of it.

    `src` are files, patterns and folders; `dst` names the output, of any format that ktrace writes, or an archive
    `*.tar` of a Perfetto trace for each source, which viewers from v58 on merge. `align` is a rule ("auto", "unix",
    "collective", "marker NAME", "none"), see `Align`; `offsets` are ns, or text such as "+1.5ms", by path, file
    name or label, that come on top of it. `keep_shift` keeps what was added to times by hand when they were
    exported (`nsys export --ts-shift`), which unix time undoes. A part (`crop`, `filter`) is taken after the
    alignment. Other arguments are those of `convert`. What was done with each source stands in `Report.alignment`.

    Raises InputError where a source can't be aligned as wanted, else what `convert` raises; then there is no output.
    """
    wanted = align if isinstance(align, Align) else Align.of(align, offsets)
    if isinstance(align, Align) and offsets:
        wanted = replace(align, offsets={**align.offsets, **offsets})
    wanted = replace(wanted, keep_shift=wanted.keep_shift or keep_shift)
    inputs = paths_of(src)
    if not inputs:
        raise UsageError("there is nothing to merge", expected="files, patterns or folders")
    report = Report(strict=strict)
    report.output = str(dst)
    archive = str(dst).endswith(".tar") and to is None
    if archive and split_by:
        raise UsageError("--split-by is for a file, an archive has one a source", remedy="another output")
    fmt = output_format("members.perfetto" if archive else str(dst), to)
    conversion = Conversion(report, options=gpu_option(gpu, fmt))
    with _writing(str(dst), fmt, archive, split_by, overwrite) as write:
        batches = read_selected(
            inputs,
            report,
            format=from_,
            progress=progress,
            jobs=jobs,
            align=wanted,
            classify=classify,
            crop=crop,
            filter=filter,
        )
        write(batches, conversion)
        report.require_balance()
        require_rows(report, inputs)
    return report


@contextmanager
def _writing(path: str, fmt: Format, archive: bool, split_by: str | None, overwrite: bool) -> Iterator[Write]:
    """What writes batches to the output, which appears at the end of the block."""
    if not archive:
        with writing_to(path, fmt, split_by, overwrite=overwrite) as write:
            yield write
        return
    from ktrace.output.archive import write_archive

    with writing(open_sink(path, fmt, overwrite=overwrite)) as sink:
        yield lambda batches, conversion: write_archive(batches, fmt, sink, conversion)
