"""`ktrace batch`: many traces into one dataset of Parquet, by many processes or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ktrace.cli._account import account_file, tell_issues
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._options import classify_of, classify_option, from_all_option
from ktrace.cli._selection import Grouped, part_options, selection_of

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.fleet.tasks import Outcome


@click.command("batch", cls=Grouped)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="OUT/", required=True, help="The folder of the dataset, here or a URL.")
@from_all_option
@click.option("--dask", metavar="ADDRESS", help="Have the workers of a Dask cluster do it: tcp://host:8786.")
@classify_option
@click.option("--strict", is_flag=True, help="Fail an input where anything has to be repaired, skipped or cut off.")
@click.option("--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write what became of each input.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes that work; the default is the cores.")
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

    try:
        with account_file(report, inputs) as write_account:
            account = batch(
                list(inputs),
                output,
                dask=dask,
                strict=strict,
                selection=selection_of(part, from_=from_, jobs=jobs, classify=classify_of(classify)),
                progress=_tell,
            )
            write_account(account)
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
    if why := account.as_whole.get(outcome.path):
        told += f" (read as a whole: {why})"
    click.echo(f"[{number}/{account.found}] {outcome.path}: {rows:,} rows, {outcome.seconds:.1f} s{told}", err=True)
