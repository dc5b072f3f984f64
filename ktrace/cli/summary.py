"""`ktrace summary`: where the time went."""

from __future__ import annotations

from typing import Any

import click

from ktrace.cli._account import tell_issues
from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._console import Progress
from ktrace.cli._figures import check_output, figures_option, format_of, format_option, write_figures
from ktrace.cli._memory import keep_freed_memory
from ktrace.cli._options import from_option, inputs_argument, jobs_option, overwrite_option, rules_option
from ktrace.cli._selection import Grouped, listed, part_options, selection_of

#: What is shown where nobody asks for anything else; a page shows all.
_BY = ("operation", "kernel")

#: Rows of a table for people, where --top doesn't say.
_TOP = 10


@click.command("summary", cls=Grouped)
@inputs_argument
@figures_option
@format_option
@from_option
@click.option(
    "--by",
    metavar="WHAT,...",
    callback=listed(str),
    help="Group by kernel, operation, library, precision, layer, stream, device, rank, step, source, run.",
)
@click.option(
    "--top", type=click.IntRange(1), metavar="N", help="So many rows of each table; 10 in text and md by default."
)
@click.option("--unclassified", is_flag=True, help="List the kernels of which no rule says the operation.")
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
    jobs: int | None,
    **part: Any,
) -> None:
    """Say where the time went: by kernel, operation, library, layer, stream, device, rank, step.

    What devices did is added up; where IN has tables of statistics instead, these are. Several inputs, such as those of
    the ranks of a run, are one summary.

    \b
    ktrace summary run.json                        use of the devices, operations, the heaviest kernels
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
            selection=selection_of(part, from_=from_, jobs=jobs),
            progress=progress.callback,
        )
    if summary.report:
        tell_issues(summary.report)
    for_people = form in ("text", "md")
    shown = summary.tables(wanted, top or (_TOP if for_people else None), brief=for_people)
    title = ", ".join(summary.sources)
    write_figures(shown, form, output, title=title, subject=summary, overwrite=overwrite)
