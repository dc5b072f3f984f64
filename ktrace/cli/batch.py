"""`ktrace batch`: many traces into one dataset of Parquet, by many processes or a cluster."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ktrace.cli._account import tell_issues
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._complete import complete_input_format
from ktrace.cli._part import Grouped, crop_of, filter_of, part_options
from ktrace.errors import UsageError

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.fleet.tasks import Outcome


@click.command("batch", cls=Grouped)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="OUT/", required=True, help="The folder of the dataset, here or a URL.")
@click.option("--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="What the inputs are.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes that work; the default is the cores.")
@click.option("--dask", metavar="ADDRESS", help="Have the workers of a Dask cluster do it: tcp://host:8786.")
@click.option(
    "--classify",
    metavar="[RULES]",
    is_flag=False,
    flag_value="",
    help="Say of device work operation, library, precision, layer and a short name; by rules of your own first.",
)
@click.option("--strict", is_flag=True, help="Fail an input where anything has to be repaired, skipped or cut off.")
@click.option("--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write what became of each input.")
@part_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    inputs: tuple[str, ...],
    output: str,
    from_: str | None,
    jobs: int | None,
    dask: str | None,
    classify: str | None,
    strict: bool,
    report: str | None,
    **part: Any,
) -> None:
    """Convert many traces into one dataset: Parquet files by run, host and rank.

    Inputs and OUT are paths, patterns or URLs (s3, gs, http, ...). The same command goes on where it was
    interrupted, and converts what is new or has changed. An input that fails doesn't stop the others; it is
    listed, and the exit code is 1.

    \b
    ktrace batch 'runs/*/rank*.json.gz' -o runs.parquet/
    ktrace batch 's3://bucket/run/*/rank*.json.gz' -o s3://bucket/run.parquet/ --dask tcp://10.0.0.1:8786
    ktrace convert runs.parquet/ --rank 3 -o rank3.perfetto
    """
    import_pyarrow()
    from ktrace.fleet.batch import batch
    from ktrace.sink import Sink, writing

    if report and (report == "-" or os.path.realpath(report) in map(os.path.realpath, inputs)):
        raise UsageError("--report needs a file of its own", expected="not '-' or an input")
    try:
        with writing(Sink(report, overwrite=True)) if report else nullcontext() as account_file:
            account = batch(
                list(inputs),
                output,
                from_=from_,
                jobs=jobs,
                dask=dask,
                strict=strict,
                classify=classify or classify is not None,
                crop=crop_of(part),
                filter=filter_of(part),
                progress=_tell,
            )
            if account_file:
                text = json.dumps(account.to_dict(), indent=1, ensure_ascii=False) + "\n"
                account_file.open().write(text.encode("utf-8", "backslashreplace"))
    except KeyboardInterrupt:
        click.echo(f"ktrace: interrupted; the same command goes on with what isn't in {output} yet", err=True)
        ctx.exit(1)
    tell_issues(account.finding)
    click.echo(f"{output}: {account.line()}", err=True)
    if account.failed:
        ctx.exit(1)


def _tell(outcome: Outcome, account: BatchReport) -> None:
    """A line for an input that is done, and the reason of one that failed."""
    number = len(account.done) + len(account.kept) + len(account.failed) + len(account.left_out)
    if outcome.manifest is None:
        click.echo(f"[{number}/{account.found}] failed: {outcome.reason}", err=True)
        return
    rows, issues = outcome.manifest.rows, ", ".join(outcome.manifest.issues)
    told = f" ({issues})" if issues else ""
    click.echo(f"[{number}/{account.found}] {outcome.path}: {rows:,} rows, {outcome.seconds:.1f} s{told}", err=True)
