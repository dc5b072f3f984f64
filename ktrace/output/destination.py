"""Where a conversion writes: the format, its form, and whether to one output or to numbered parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.detection import by_name
from ktrace.input.format import Format, all_formats, builtin_formats
from ktrace.input.source import COMPRESSED
from ktrace.model.batch import Batch
from ktrace.output.sink import Sink, open_sink, writing
from ktrace.output.write import write_batches

#: Ways in which Perfetto traces show device work; "auto" means "stages".
GPU_FORMS = ("auto", "stages", "slices")

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
    from ktrace.stages.split.stage import SplitBy

    by = SplitBy.of(split_by)
    with writing(NumberedOutputs(path, fmt, overwrite=overwrite)) as parts:
        yield lambda batches, conversion: write_parts(batches, by, parts, conversion)


def _write(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Writes batches to an output, and notes which files of an overwritten folder aren't ktrace's."""
    write_batches(batches, fmt, sink, conversion)
    if sink.others:
        conversion.report.issue("other-files", sink.path, ", ".join(sink.others), rows=0)
