"""`ktrace convert`: logs in, a timeline or a table out; what it shares with `ktrace merge`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from ktrace.cli._console import Progress, account_file, print_report, put_answer, tell_labels, tell_metrics
from ktrace.cli._options import (
    Decorator,
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
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import Selection, Unaligned
from ktrace.report import Report


def writes_output(name: str, what: str, selected: Sequence[type | str], *more: Decorator) -> Decorator:
    """Adds the options of commands that write a trace, those of this one after `--to`; prints the account at the end.

    The command gets the keywords of `ktrace.convert`, and those of `more` options; it returns the account.
    `selected` are the groups of `selection_options`.
    """
    report_option = click.option(
        "--report",
        metavar="R.json",
        type=click.Path(dir_okay=False),
        help=f"Write a report of the {what} to this file.",
    )
    options: list[Decorator] = [inputs_argument, output_option, json_option, to_option, *more]
    options += [gpu_option, strict_option, report_option, overwrite_option]

    def decorate(write: Callable[..., Report]) -> Callable[..., None]:
        @wraps(write)
        def command(
            inputs: tuple[str, ...],
            output: str | None,
            report: str | None,
            format_: str,
            selection: Selection,
            **given: Any,
        ) -> None:
            output = output_of(output, name, inputs)
            check_account(format_, output)
            tune_allocator()
            import_pyarrow()
            with account_file(report, (output, *inputs)) as write_account, Progress(inputs) as progress:
                account = write(
                    src=list(inputs),
                    dst=output,
                    selection=selection,
                    progress=progress.callback,
                    account=write_account,
                    **given,
                )
            if format_ == "json":
                put_answer(name, account.to_dict())
            if not selection.metrics:
                tell_metrics(account, output)
            print_report(account, output)
            if name == "convert":
                tell_labels(account, output)

        decorated: Callable[..., Any] = selection_options(*selected)(command)
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


@click.command("convert", cls=Grouped)
@writes_output(
    "convert",
    "conversion",
    [Unaligned],
    click.option(
        "--table",
        type=click.Choice(["events", "summaries", "links", "catalog"]),
        help="Write only these rows, with their own columns (csv, parquet, jsonl, json).",
    ),
    click.option(
        "--formulas",
        is_flag=True,
        help="Write texts of a CSV that begin with = + - @ as they are; by default an apostrophe precedes them.",
    ),
)
def command(**given: Any) -> Report:
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
    from ktrace.pipeline.convert import convert

    return convert(**given)
