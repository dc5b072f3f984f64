"""`ktrace diff`: what changed between two traces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import (
    Progress,
    beyond_screen,
    check_output,
    figures_option,
    format_of,
    print_line,
    tell_issues,
    write_figures,
    write_text,
)
from ktrace.cli._options import (
    Grouped,
    complete_by,
    limit_options,
    listed,
    overwrite_option,
    selection_options,
)
from ktrace.page.render import WRITTEN
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import AskOptions, Selection

if TYPE_CHECKING:
    from ktrace.tables import Limits

#: The exit code where --fail-over finds a regression.
REGRESSION = 3

#: What pipelines show of the limits, as `--format` names it.
FORMATS = ("junit", "github")

#: Rows of each table in text and Markdown without --top; the other formats have all rows.
_TOP = 20


def _percent(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parses a percentage: `5%`, `5`, `0.5%`."""
    if value is None:
        return None
    try:
        percent = float(value.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < float("inf"):
        raise click.BadParameter(f"'{value}' isn't a percentage, such as 5%")
    return percent


def _two(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, str] | None:
    """Parses the names of two runs, separated by a comma."""
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")]
    if len(names) != 2 or "" in names:
        raise click.BadParameter(f"'{value}' isn't two runs, such as before,after")
    return names[0], names[1]


@click.command("diff", cls=Grouped)
@click.argument("a", metavar="A", type=click.Path(allow_dash=True, readable=False))
@click.argument("b", metavar="[B]", required=False, type=click.Path(allow_dash=True, readable=False))
@figures_option
@click.option(
    "--format",
    "format_",
    type=click.Choice((*WRITTEN, *FORMATS)),
    help="Output format; by default the extension of OUT decides, else text. With a limit also junit (test cases) and "
    "github (annotations of a workflow).",
)
@click.option(
    "--by",
    metavar="WHAT,...",
    shell_complete=complete_by,
    callback=listed(str),
    help="Compare by kernel, operation, library, precision, layer, stream, device, rank, step, source, "
    "op, shape, module, range, pass, api, idle, collective, critical-path, phase, batch, breakdown.",
)
@click.option("--why", is_flag=True, help="Split the change into causes that add up to it: --by breakdown.")
@click.option(
    "--top",
    "--rows",
    "top",
    type=click.IntRange(1),
    metavar="N",
    help="At most N rows per table; the default is 20 in text and md, else all.",
)
@limit_options()
@click.option("--total", is_flag=True, help="Compare whole traces, even if both have steps.")
@click.option("--runs", metavar="X,Y", callback=_two, help="Compare these two runs of A.")
@click.option(
    "--fail-over", metavar="P%", callback=_percent, help="Exit with 3 if the whole got slower by more than P%."
)
@click.option(
    "--fail-over-each",
    metavar="P%",
    callback=_percent,
    help="Exit with 3 if a row of the first table got slower by more than P%.",
)
@overwrite_option
@selection_options(AskOptions)
def command(
    a: str,
    b: str | None,
    output: str,
    format_: str | None,
    by: tuple[str, ...],
    why: bool,
    top: int | None,
    total: bool,
    runs: tuple[str, str] | None,
    fail_over: float | None,
    fail_over_each: float | None,
    overwrite: bool,
    within: Limits,
    selection: Selection,
) -> None:
    """Show what changed from A to B (kernels, operations, layers, devices), and which changes exceed noise.

    A and B are files, or folders of ranks, in any formats. Without B, the two runs that A contains are compared.

    \b
    ktrace diff monday.json.gz tuesday.json.gz            the greatest changes first
    ktrace diff a.sqlite b.sqlite --by layer,stream       by layer and by stream
    ktrace diff base.parquet new.parquet --fail-over 5%   for pipelines: exit code 3 if it got slower
    ktrace diff a.json b.json --why                       the causes of the change, which add up to it
    ktrace diff a.json b.json -o diff.html                a page with charts
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.analysis.answers.diff.comparable import alike
    from ktrace.analysis.answers.diff.comparison import gate
    from ktrace.analysis.answers.diff.sentences import verdict
    from ktrace.analysis.answers.diff.sides import compare

    by = tuple(dict.fromkeys((*by, "breakdown"))) if why else by
    inputs = [a] if b is None else [a, b]
    check_output(output, inputs)
    form = format_ or format_of(output)
    with Progress(inputs) as progress:
        diff = compare(
            a,
            b,
            by=by or None,
            total=total,
            runs=runs,
            selection=selection,
            progress=progress.callback,
        )
    for side in (diff.a, diff.b):
        if side.report is not None:
            tell_issues(side.report)
    if fail_over is not None or fail_over_each is not None:
        diff.gate = gate(diff, fail_over, fail_over_each, part=diff.part)
        diff.verdict = verdict(diff)
    few = top or (_TOP if form in ("text", "md") else None)
    cuts_changes = form in ("text", "md") and within.after is None  # only the changes are cut for people
    within = within if cuts_changes else replace(within, rows=few)
    tables = diff.tables(few if cuts_changes else None, full=form in ("csv", "json", "xlsx"))
    if form == "csv" and len(by) == 1 and not within.tables:
        tables = [table for table in tables if table.name == by[0]]
    if form == "text" and output == "-" and beyond_screen(tables) and tables[0].sentences:
        tables.append(tables[0])  # the verdict, which has scrolled away
    title = f"{diff.name_a} -> {diff.name_b}"
    if form in FORMATS:
        from ktrace.analysis.answers.diff.gated import gated

        write_text(gated(diff, form), output, overwrite=overwrite)
    else:
        write_figures(tables, form, output, title=title, subject=diff, overwrite=overwrite, limits=within)
    if diff.gate and diff.gate.failed:
        for regression in diff.gate.regressions:
            print_line(f"{'slower' if regression.comparable else 'not known'}: {regression}", err=True)
        if unlike := alike(diff):
            print_line(unlike, err=True)
        raise click.exceptions.Exit(REGRESSION)
