"""`ktrace merge`: the ranks of a run, or several tools' views of it, in one timeline."""

from __future__ import annotations

import click

from ktrace.cli._console import Progress, account_file, print_report, put_answer, tell_metrics
from ktrace.cli._options import (
    Grouped,
    complete_alignment,
    gpu_option,
    inputs_argument,
    output_of,
    output_option,
    overwrite_option,
    selection_options,
    strict_option,
    to_option,
)
from ktrace.cli._programs import check_account, json_option
from ktrace.cli._start import import_pyarrow, tune_allocator
from ktrace.errors import UsageError
from ktrace.pipeline.selection import ReadOptions, Selection


class Merging(Grouped):
    """The merge command, which accepts `--align marker NAME` as two words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        rest = iter(args)
        for word in rest:
            two = joined[-1:] == ["--align"] and word == "marker"
            joined.append(f"marker:{next(rest, '')}" if two else word)
        return super().parse_args(ctx, joined)


@click.command("merge", cls=Merging)
@inputs_argument
@output_option
@json_option
@to_option
@click.option(
    "--align",
    metavar="RULE",
    shell_complete=complete_alignment,
    default="auto",
    help="How clocks are aligned: auto, unix, collective, marker NAME, none.",
)
@click.option(
    "--offset",
    "offsets",
    metavar="FILE=TIME",
    multiple=True,
    help="Add a time to all times of an input: +1.5ms. Repeatable.",
)
@click.option(
    "--keep-shift", is_flag=True, help="Keep a manual shift of the times made at export (nsys export --ts-shift)."
)
@gpu_option
@strict_option
@click.option(
    "--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write a report of the merge to this file."
)
@overwrite_option
@selection_options(ReadOptions, "capture", "repair_clock", "explain", "split_by", "budget")
def command(
    inputs: tuple[str, ...],
    output: str | None,
    align: str,
    offsets: tuple[str, ...],
    keep_shift: bool,
    to: str | None,
    gpu: str,
    strict: bool,
    report: str | None,
    format_: str,
    overwrite: bool,
    selection: Selection,
) -> None:
    """Merge inputs of any formats into one timeline, with all times in the clock of the first.

    Inputs are files, patterns and folders, such as PyTorch with nsys, or a browser log with a Metal trace. A part of
    the trace is selected after the clocks are aligned.

    \b
    ktrace merge rank*.json.gz -o run.perfetto            by unix time, if the clocks provide it
    ktrace merge rank*.json.gz -o run.perfetto --align collective    by collectives, which end together
    ktrace merge a.json b.sqlite -o run.perfetto --align marker 'train step 3'
    ktrace merge a.json b.json -o run.perfetto --offset b.json=+1.5ms
    ktrace merge rank*.json.gz -o run.tar                 one .perfetto per rank, merged by the viewer (v58)
    ktrace merge rank*.json.gz -o step3.perfetto --step 3
    """
    output = output_of(output, "merge", inputs)
    check_account(format_, output)
    tune_allocator()
    import_pyarrow()
    from ktrace.pipeline.convert import merge

    with account_file(report, (output, *inputs)) as write_account, Progress(inputs) as progress:
        account = merge(
            list(inputs),
            output,
            align=align,
            offsets=_offsets(offsets),
            keep_shift=keep_shift,
            selection=selection,
            to=to,
            gpu=gpu,
            strict=strict,
            overwrite=overwrite,
            progress=progress.callback,
            account=write_account,
        )
    if format_ == "json":
        put_answer("merge", account.to_dict())
    tell_metrics(account, output)
    print_report(account, output)


def _offsets(given: tuple[str, ...]) -> dict[str, int | str]:
    """Returns the FILE=TIME options as a mapping; a name may contain '='. Raises UsageError."""
    offsets: dict[str, int | str] = {}
    for text in given:
        name, is_there, time = text.rpartition("=")
        if not is_there or not name:
            raise UsageError(f"'{text}' isn't an offset", expected="FILE=TIME, such as rank1.json.gz=+1.5ms")
        if name in offsets:
            raise UsageError(f"'{name}' has two offsets", remedy="add them up")
        offsets[name] = time
    return offsets
