"""`ktrace batch`: many traces into one Parquet dataset, with many processes or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from ktrace.cli._console import (
    account_file,
    colour,
    print_line,
    put_answer,
    shows_progress,
    tell_issues,
    typed,
    width,
    write_stdout,
)
from ktrace.cli._options import (
    Grouped,
    complete_folders,
    selection_options,
)
from ktrace.cli._programs import json_option
from ktrace.errors import InputError, UsageError
from ktrace.parallel.interruption import INTERRUPTION
from ktrace.parallel.startup import import_pyarrow
from ktrace.pipeline.selection import BatchOptions, Selection
from ktrace.report import counted

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.fleet.tasks import Outcome
    from ktrace.fleet.together import FleetReport


#: The folders of a dataset, unless something else is asked for.
_BY = "run,host,rank"


@click.command("batch", cls=Grouped)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="OUT/", required=True, help="The folder of the dataset: a path or a URL.")
@json_option
@click.option(
    "--by",
    metavar="KEY,...",
    default=_BY,
    shell_complete=complete_folders,
    help="Keys of the dataset's folders, outermost first: run, host, rank; the default is run,host,rank.",
)
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of a Dask cluster: tcp://host:8786.")
@click.option(
    "--fleet",
    is_flag=True,
    help="Write small tables and a page instead: which ranks, stages, experts and links of a job are slow.",
)
@click.option(
    "--strict", is_flag=True, help="Fail an input if anything in it has to be repaired or skipped, or if it is cut off."
)
@click.option(
    "--report", metavar="R.json", type=click.Path(dir_okay=False), help="Write the result of each input to this file."
)
@selection_options(BatchOptions)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    inputs: tuple[str, ...],
    output: str,
    by: str,
    dask: str | None,
    fleet: bool,
    strict: bool,
    report: str | None,
    format_: str,
    selection: Selection,
) -> None:
    """Convert many traces into one dataset: Parquet files in folders by run, host and rank.

    Inputs and OUT are paths, patterns or URLs (s3, gs, http, ...). Run the same command again to resume after an
    interruption and to convert new or changed inputs. An input that fails doesn't stop the others: it is listed,
    and the exit code is 1.

    With --fleet each rank is read once and reduced to a small table in OUT. It prints what is slow, and writes a page
    with a map of ranks by steps, OUT/fleet.html.

    \b
    ktrace batch "runs/*/rank*.json.gz" -o runs.parquet/
    ktrace batch "run/rank*.json.gz" -o ranks/ --fleet
    ktrace batch "s3://bucket/run/*/rank*.json.gz" -o s3://bucket/run.parquet/ --dask tcp://10.0.0.1:8786
    ktrace batch "runs/*/rank*.json.gz" -o by-rank.parquet/ --by rank,run
    ktrace convert runs.parquet/ --rank 3 -o rank3.perfetto
    """
    import_pyarrow()
    if fleet:
        if strict or report or by != _BY:
            raise UsageError("--fleet makes no dataset", remedy="leave out --by, --strict and --report, or --fleet")
        _fleet(ctx, inputs, output, dask, format_, selection)
        return
    from ktrace.fleet.batch import batch

    try:
        with account_file(report, inputs) as write_account, _Telling() as telling:
            account = batch(
                list(inputs),
                output,
                dask=dask,
                strict=strict,
                by=by,
                selection=selection,
                progress=telling.show,
            )
            write_account(account)
    except KeyboardInterrupt:
        _interrupted(ctx, f"to convert the inputs that aren't in {output} yet")
    if format_ == "json":
        put_answer("batch", account.to_dict())
    _tell_failed(account, is_reported=telling.is_reported)
    print_line(f"{output}: {account.line()}", err=True)
    if cut := sum("cut" in manifest.issues for manifest in (*account.done, *account.kept)):
        print_line(f"warning: {cut:,} inputs are cut off; everything before the cut was converted", err=True)
    if account.failed:
        ctx.exit(1)
    if selection.filter and (account.done or account.kept) and not account.rows:
        raise InputError("no row of any input passes the filter", remedy="ktrace info IN shows what an input contains")


def _fleet(
    ctx: click.Context, inputs: tuple[str, ...], output: str, dask: str | None, format_: str, selection: Selection
) -> None:
    """Reduces the inputs, prints what is slow, and writes the page."""
    from ktrace.fleet.answer import document, screen, sentences, tables
    from ktrace.fleet.run import PAGE, fleet
    from ktrace.input.stores import open_store
    from ktrace.page.page import page
    from ktrace.tables import prose

    try:
        with _Telling("reading") as telling:
            answer = fleet(list(inputs), output, dask=dask, selection=selection, progress=telling.show)
    except KeyboardInterrupt:
        _interrupted(ctx, f"to read the inputs that have no table in {output} yet")
    account = answer.report
    shown = [*prose("verdict", sentences(answer)), *tables(answer)]
    text = page(shown, title=f"{len(answer.ranks):,} ranks", subject=answer, command=typed())
    open_store(account.output).write(PAGE, text.encode("utf-8", "backslashreplace"))
    if format_ == "json":
        reasons = [{"path": path, "state": "failed", "reason": reason} for path, reason in account.failed.items()]
        states = [{"path": path, "state": state} for state in ("done", "kept") for path in getattr(account, state)]
        rows = sum(one.events for one in answer.ranks)
        put_answer(
            "batch",
            {"output": output, "rows": rows, "inputs": [*states, *reasons], "fleet": document(answer)},
        )
    else:
        write_stdout(screen(answer, width=width(), colour=colour()))
    _tell_failed(account, is_reported=telling.is_reported)
    print_line(f"{output.rstrip('/')}/{PAGE}: {account.line()}", err=True)
    if account.failed:
        ctx.exit(1)


def _tell_failed(account: BatchReport | FleetReport, *, is_reported: bool) -> None:
    """Lists the files that aren't traces and the inputs that failed; why, unless that was `is_reported` already."""
    tell_issues(account.finding)
    for reason in account.failed.values():
        first, *rest = reason.split("\n")
        print_line(f"failed: {first}", err=True)
        for line in [] if is_reported else rest:
            print_line(line, err=True)


def _interrupted(ctx: click.Context, what: str) -> NoReturn:
    """Ends after an interruption; the same command goes on."""
    print_line(f"ktrace: interrupted; run the same command again {what}", err=True)
    INTERRUPTION.settle()
    ctx.exit(INTERRUPTION.code)


class _Telling:
    """Shows the progress: on a terminal one bar of all inputs, otherwise a line for each input, for a log.

    `is_reported` tells whether the reasons of failures were printed already. The bar has no thread of its own.
    """

    def __init__(self, doing: str = "converting") -> None:
        self.is_reported = not shows_progress()
        self._doing = doing
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Telling:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, outcome: Outcome, account: BatchReport | FleetReport) -> None:
        """Shows that an input is done, or failed."""
        if self.is_reported:
            _tell(outcome, account)
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (self._doing, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            failed = TextColumn("{task.fields[failed]}")
            self._bar = Bar(*columns, failed, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._task = self._bar.add_task(self._doing, total=account.found, failed="")
            self._bar.start()
        failed_text = f"{len(account.failed):,} failed" if account.failed else ""
        self._bar.update(self._task, completed=account.settled, failed=failed_text)
        self._bar.refresh()


def _tell(outcome: Outcome, account: BatchReport | FleetReport) -> None:
    """Prints a line for an input that is done, or the reason why it failed."""
    from ktrace.fleet.batch import BatchReport

    number = account.settled
    if outcome.reason:
        for line in f"[{number}/{account.found}] failed: {outcome.reason}".split("\n"):
            print_line(line, err=True)
        return
    if outcome.manifest is None:
        print_line(f"[{number}/{account.found}] {outcome.path}: {outcome.seconds:.1f} s", err=True)
        return
    rows, issues = outcome.manifest.rows, ", ".join(outcome.manifest.issues)
    notes = f" ({issues})" if issues else ""
    if isinstance(account, BatchReport) and (why := account.as_whole.get(outcome.path)):
        notes += f" (read as a whole: {why})"
    print_line(
        f"[{number}/{account.found}] {outcome.path}: {counted(rows, 'row')}, {outcome.seconds:.1f} s{notes}", err=True
    )
