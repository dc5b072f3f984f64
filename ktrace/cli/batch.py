"""`ktrace batch`: many traces into one Parquet dataset, with many processes or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ktrace.cli._account import account_file, tell_issues
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._options import classify_of, classify_option, from_all_option, map_option
from ktrace.cli._selection import Grouped, part_options, selection_of

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.fleet.tasks import Outcome


@click.command("batch", cls=Grouped)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="OUT/", required=True, help="The folder of the dataset: a path or a URL.")
@from_all_option
@map_option
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of a Dask cluster: tcp://host:8786.")
@classify_option
@click.option(
    "--strict", is_flag=True, help="Fail an input if anything in it has to be repaired or skipped, or if it is cut off."
)
@click.option(
    "--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write the result of each input to this file."
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Number of processes; the default is the number of cores."
)
@part_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    inputs: tuple[str, ...],
    output: str,
    from_: str | None,
    map_: str | None,
    jobs: int | None,
    dask: str | None,
    classify: str | None,
    strict: bool,
    report: str | None,
    **part: Any,
) -> None:
    """Convert many traces into one dataset: Parquet files by run, host and rank.

    Inputs and OUT are paths, patterns or URLs (s3, gs, http, ...). Run the same command again to resume after an
    interruption and to convert new or changed inputs. An input that fails doesn't stop the others: it is listed,
    and the exit code is 1.

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
                selection=selection_of(part, from_=from_, map=map_, jobs=jobs, classify=classify_of(classify)),
                progress=_tell,
            )
            write_account(account)
    except KeyboardInterrupt:
        click.echo(
            f"ktrace: interrupted; run the same command again to convert the inputs that aren't in {output} yet",
            err=True,
        )
        ctx.exit(1)
    tell_issues(account.finding)
    click.echo(f"{output}: {account.line()}", err=True)
    if account.failed:
        ctx.exit(1)


def _tell(outcome: Outcome, account: BatchReport) -> None:
    """Prints a line for an input that is done, or the reason why it failed."""
    number = len(account.done) + len(account.kept) + len(account.failed) + len(account.left_out)
    if outcome.manifest is None:
        click.echo(f"[{number}/{account.found}] failed: {outcome.reason}", err=True)
        return
    rows, issues = outcome.manifest.rows, ", ".join(outcome.manifest.issues)
    notes = f" ({issues})" if issues else ""
    if why := account.as_whole.get(outcome.path):
        notes += f" (read as a whole: {why})"
    click.echo(f"[{number}/{account.found}] {outcome.path}: {rows:,} rows, {outcome.seconds:.1f} s{notes}", err=True)
