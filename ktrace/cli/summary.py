"""`ktrace summary`: where the time went."""

from __future__ import annotations

from typing import Any

import click

from ktrace.cli._account import tell_issues
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._console import Progress
from ktrace.cli._figures import check_output, figures_option, format_of, format_option, write_figures
from ktrace.cli._memory import keep_freed_memory
from ktrace.cli._options import from_option, inputs_argument, jobs_option, map_option, overwrite_option, rules_option
from ktrace.cli._selection import Grouped, listed, part_options, selection_of

#: The tables shown without --by; a page shows all.
_BY = ("operation", "kernel")

#: Rows of each table in text and Markdown without --top.
_TOP = 10


@click.command("summary", cls=Grouped)
@inputs_argument
@figures_option
@format_option
@from_option
@map_option
@click.option(
    "--by",
    metavar="WHAT,...",
    callback=listed(str),
    help="Group by kernel, operation, library, precision, layer, stream, device, rank, step, source, run.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    help="At most N rows per table; the default is 10 in text and md, else all.",
)
@click.option("--unclassified", is_flag=True, help="List the kernels whose operation no rule knows.")
@rules_option
@overwrite_option
@jobs_option
@part_options
def command(
    inputs: tuple[str, ...],
    by: tuple[str, ...],
    top: int | None,
    unclassified: bool,
    format_: str | None,
    output: str,
    overwrite: bool,
    rules: str | None,
    from_: str | None,
    map_: str | None,
    jobs: int | None,
    **part: Any,
) -> None:
    """Show where the time went: by kernel, operation, library, layer, stream, device, rank, step.

    The times of device work are added up, or the totals of IN's tables of statistics if it has no events. Several
    inputs, such as the ranks of a run, give one summary.

    \b
    ktrace summary run.json                        use of devices, operations, heaviest kernels
    ktrace summary rank*.json.gz --by rank,layer
    ktrace summary run.sqlite --step 3             of a part of it
    ktrace summary run.json -o run.html            a page with charts
    ktrace summary run.json --format csv --by kernel | head
    """
    keep_freed_memory()
    import_pyarrow()
    from ktrace.summary.compute import summarise
    from ktrace.summary.keys import UNCLASSIFIED

    check_output(output, inputs)
    form = format_ or format_of(output)
    wanted = (*by, UNCLASSIFIED) if unclassified else by or (None if form == "html" else _BY)
    with Progress(inputs) as progress:
        summary = summarise(
            list(inputs),
            by=wanted,
            rules=rules,
            selection=selection_of(part, from_=from_, map=map_, jobs=jobs),
            progress=progress.callback,
        )
    if summary.report:
        tell_issues(summary.report)
    for_people = form in ("text", "md")
    shown = summary.tables(wanted, top or (_TOP if for_people else None), brief=for_people)
    title = ", ".join(summary.sources)
    write_figures(shown, form, output, title=title, subject=summary, overwrite=overwrite)
