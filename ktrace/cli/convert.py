"""`ktrace convert`: logs in, a timeline or a table out."""

from __future__ import annotations

import click

from ktrace.cli._console import Progress, account_file, print_report, put_answer, tell_labels, tell_metrics
from ktrace.cli._options import (
    Grouped,
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
from ktrace.pipeline.selection import Selection, Unaligned


@click.command("convert", cls=Grouped)
@inputs_argument
@output_option
@json_option
@to_option
@click.option(
    "--table",
    type=click.Choice(["events", "summaries", "links", "catalog"]),
    help="Write only these rows, with their own columns (csv, parquet, jsonl, json).",
)
@click.option(
    "--formulas",
    is_flag=True,
    help="Write texts of a CSV that begin with = + - @ as they are; by default an apostrophe precedes them.",
)
@gpu_option
@strict_option
@click.option(
    "--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write a report of the conversion to this file."
)
@overwrite_option
@selection_options(Unaligned)
def command(
    inputs: tuple[str, ...],
    output: str | None,
    to: str | None,
    table: str | None,
    formulas: bool,
    gpu: str,
    strict: bool,
    report: str | None,
    format_: str,
    overwrite: bool,
    selection: Selection,
) -> None:
    """Convert logs, tables and traces into a timeline or a table.

    The format of IN is detected from its content, and the format of OUT from its name. Several inputs become one
    output, each with its own source label; on a timeline their clocks are aligned, as by `ktrace merge`.

    \b
    ktrace convert run.log -o run.perfetto        a timeline for ui.perfetto.dev
    ktrace convert run.log -o run.trace.json.gz   a timeline for chrome://tracing
    ktrace convert run.log -o run.parquet         tables for DuckDB, pandas, Polars
    ktrace convert run.log -o - --to csv | head   through pipes
    ktrace convert run.sqlite --metrics ncu.csv -o run.perfetto   metrics on the kernels of a timeline
    ktrace convert run.pt.trace.json --execution-trace et.json -o run.perfetto   shapes and types of operators
    ktrace convert run.sqlite -o gpu.perfetto --only-gpu --min-dur 10us   a part of it
    ktrace convert run.sqlite -o step.perfetto --step 3                   a step of it
    ktrace convert run.sqlite -o run.perfetto --split-by size=500MB       run.000.perfetto, run.001.perfetto, ...
    """
    output = output_of(output, "convert", inputs)
    check_account(format_, output)
    tune_allocator()
    import_pyarrow()
    from ktrace.pipeline.convert import convert

    with account_file(report, (output, *inputs)) as write_account, Progress(inputs) as progress:
        account = convert(
            list(inputs),
            output,
            selection=selection,
            to=to,
            table=table,
            formulas=formulas,
            gpu=gpu,
            strict=strict,
            overwrite=overwrite,
            progress=progress.callback,
            account=write_account,
        )
    if format_ == "json":
        put_answer("convert", account.to_dict())
    if not selection.metrics:
        tell_metrics(account, output)
    print_report(account, output)
    tell_labels(account, output)
