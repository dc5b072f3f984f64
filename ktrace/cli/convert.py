"""`ktrace convert`: logs in, a timeline or a table out."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import Any

import click

from ktrace.cli._account import tell_issues, tell_parts
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._complete import complete_input_format, complete_output_format
from ktrace.cli._console import Progress
from ktrace.cli._memory import keep_freed_memory
from ktrace.cli._part import Grouped, crop_of, filter_of, part_options
from ktrace.errors import UsageError


@click.command("convert", cls=Grouped)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False))
@click.option("-o", "--output", metavar="OUT", required=True, help="Where to write; '-' is standard output.")
@click.option("--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="What the input is.")
@click.option(
    "--to", metavar="FORMAT", shell_complete=complete_output_format, help="What to write, whatever OUT is called."
)
@click.option(
    "--table",
    type=click.Choice(["events", "summaries", "links", "catalog"]),
    help="Write one record with its own columns alone (csv, parquet, jsonl, json).",
)
@click.option(
    "--metrics", metavar="FILE", help="Metrics of launches (Nsight Compute) to put on the same kernels of IN."
)
@click.option(
    "--launch-skip", metavar="N", type=click.IntRange(0), help="Launches of IN before the first that has metrics."
)
@click.option(
    "--classify",
    metavar="[RULES]",
    is_flag=False,
    flag_value="",
    help="Say of device work operation, library, precision, layer and a short name; by rules of your own first.",
)
@click.option("--split-by", metavar="WAY", help="Write numbered parts: time=10s, size=500MB or step.")
@click.option("--strict", is_flag=True, help="Fail where anything has to be repaired, skipped or cut off.")
@click.option(
    "--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write the account of the conversion."
)
@click.option("--overwrite", is_flag=True, help="Replace an output that exists.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes that may work; the default is the cores.")
@part_options
def command(
    inputs: tuple[str, ...],
    output: str,
    from_: str | None,
    to: str | None,
    table: str | None,
    metrics: str | None,
    launch_skip: int | None,
    classify: str | None,
    split_by: str | None,
    strict: bool,
    report: str | None,
    overwrite: bool,
    jobs: int | None,
    **part: Any,
) -> None:
    """Convert logs, tables and traces into a timeline or a table.

    The format of IN is found by looking at it, that of OUT by its name. Several inputs become one output,
    each with its own source label.

    \b
    ktrace convert run.log -o run.perfetto        a timeline for ui.perfetto.dev
    ktrace convert run.log -o run.trace.json.gz   a timeline for chrome://tracing
    ktrace convert run.log -o run.parquet         tables for DuckDB, pandas, Polars
    ktrace convert run.log -o - --to csv | head   through pipes
    ktrace convert run.sqlite --metrics ncu.csv -o run.perfetto   metrics on the kernels of a timeline
    ktrace convert run.sqlite -o gpu.perfetto --only-gpu --min-dur 10us   a part of it
    ktrace convert run.sqlite -o step.perfetto --step 3                   a step of it
    ktrace convert run.sqlite -o run.perfetto --split-by size=500MB       run.000.perfetto, run.001.perfetto, ...
    """
    keep_freed_memory()
    import_pyarrow()
    from ktrace.pipeline import convert
    from ktrace.sink import Sink, writing

    if report and (report == "-" or os.path.realpath(report) in map(os.path.realpath, (output, *inputs))):
        raise UsageError("--report needs a file of its own", expected="not '-', an input or the output")
    report_sink = writing(Sink(report, overwrite=True)) if report else nullcontext()
    with report_sink as account_file, Progress(inputs) as progress:
        account = convert(
            list(inputs),
            output,
            from_=from_,
            to=to,
            table=table,
            strict=strict,
            overwrite=overwrite,
            progress=progress.callback,
            jobs=jobs,
            metrics=metrics,
            launch_skip=launch_skip,
            classify=classify or classify is not None,
            filter=filter_of(part),
            crop=crop_of(part),
            split_by=split_by,
        )
        if account_file:
            text = json.dumps(account.to_dict(), indent=1, ensure_ascii=False) + "\n"
            account_file.open().write(text.encode("utf-8", "backslashreplace"))
    tell_issues(account)
    tell_parts(account)
    click.echo(f"{output}: {account.line()}", err=True)
