"""`ktrace summary`: where the time went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import (
    Progress,
    beyond_screen,
    check_output,
    colour,
    figures_option,
    format_of,
    format_option,
    print_line,
    tell_issues,
    width,
    write_figures,
    write_stdout,
)
from ktrace.cli._options import (
    Grouped,
    complete_by,
    inputs_argument,
    limit_options,
    listed,
    overwrite_option,
    selection_options,
)
from ktrace.errors import UsageError
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import AskOptions, Selection

if TYPE_CHECKING:
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.tables import Limits, Table

#: The tables shown without --by, and those of inputs that may be several; a page shows all.
_BY = ("idle", "limits", "operation", "kernel")
_BY_OF_SEVERAL = ("idle", "collective", "limits", "operation", "kernel")

#: Rows of each table in text and Markdown without --top.
_TOP = 10
_TOP_OF_TREE = 30


@click.command("summary", cls=Grouped)
@inputs_argument
@figures_option
@format_option
@click.option(
    "--by",
    metavar="WHAT,...",
    shell_complete=complete_by,
    callback=listed(str),
    help="Group by kernel, operation, library, precision, layer, stream, device, rank, step, source, run; by what "
    "launched it on the host: op, shape, module, range, pass. Or ask: api, idle, breakdown, collective, "
    "roofline, critical-path, phase, batch, request, memory, counter, energy, inside, launch, limits, duration, copy, "
    "sequence, queue, wait.",
)
@click.option("--tree", is_flag=True, help="Nest what --by names of range, module, op and kernel: the call tree.")
@click.option(
    "--top",
    "--rows",
    "top",
    type=click.IntRange(1),
    metavar="N",
    help="At most N rows per table; the default is 10 in text and md (30 in a tree), else all.",
)
@click.option("--full", is_flag=True, help="All tables, instead of the answer on one screen.")
@limit_options()
@click.option("--unclassified", is_flag=True, help="List the kernels that no rule of operations matches.")
@click.option(
    "--peaks",
    metavar="FILE",
    help="With --by roofline: a table of peak rates of devices; it precedes the built-in one.",
)
@click.option(
    "--price", metavar="PRICE", help="What a device costs an hour, such as 2.5/h: the cost of steps and tokens."
)
@overwrite_option
@selection_options(AskOptions)
def command(
    inputs: tuple[str, ...],
    by: tuple[str, ...],
    tree: bool,
    top: int | None,
    full: bool,
    unclassified: bool,
    format_: str | None,
    output: str,
    overwrite: bool,
    peaks: str | None,
    price: str | None,
    within: Limits,
    selection: Selection,
) -> None:
    """Show where the time went: by kernel, operation, layer, device, step, operator, range; why devices were idle.

    The times of device work are added up, or the totals of IN's tables of statistics if it has no events. Several
    inputs, such as the ranks of a run, become one summary.

    \b
    ktrace summary run.json                        device utilisation, what to look at first, operations, top kernels
    ktrace summary rank*.json.gz --by rank,layer
    ktrace summary run.json --by op                device time by the operator that launched it
    ktrace summary run.json --by range,op --tree   the call tree
    ktrace summary rank*.json.gz --by collective   bandwidths, skew, stragglers
    ktrace summary run.sqlite --step 3             a step of it
    ktrace summary run.json -o run.html            a page with charts
    ktrace summary run.json --by roofline          TFLOP/s and GB/s, against the peak of the device
    ktrace summary run.json --format csv --by kernel | head
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.analysis.answers.summary import COST, TREE
    from ktrace.analysis.answers.summary.compute import summarise
    from ktrace.analysis.answers.summary.screen import inputs_of, screen
    from ktrace.analysis.work.groups import NOT_KNOWN, UNCLASSIFIED

    check_output(output, inputs)
    form = format_ or format_of(output)
    usual = None if form == "html" and not tree else _BY_OF_SEVERAL if _may_be_several(inputs) else _BY
    by = tuple(dict.fromkeys((*by, COST))) if price is not None and (by or form != "html") else by
    if COST in by and price is None:
        raise UsageError("--by cost needs a price", remedy="--price 2.5/h, if a device costs 2.5 an hour")
    chosen = (*by, UNCLASSIFIED) if unclassified else by or usual
    everything = full or bool(chosen != usual or tree or within.tables or within.after or within.bytes)
    with Progress(inputs) as progress:
        summary = summarise(
            list(inputs),
            by=chosen,
            tree=tree,
            peaks=peaks,
            price=price,
            selection=selection,
            progress=progress.callback,
        )
    if not by:  # only what was asked for and isn't there is worth a note, and one rank waits for none
        summary.notes = [note for note in summary.notes if not note.startswith(NOT_KNOWN)]
        chosen = chosen and tuple(name for name in chosen if name != "collective" or len(summary.sources) > 1)
    if summary.report:
        tell_issues(summary.report)
    for_people = form in ("text", "md")
    if form == "text" and output == "-" and not everything:
        write_stdout(screen(summary, top, width=width(), colour=colour()))
        return
    if tree:
        chosen = (*(name for name in chosen or () if name not in TREE), "tree")
    few = top or ((_TOP_OF_TREE if tree else _TOP) if for_people else None)
    answers_choose = tree or (
        for_people and within.after is None
    )  # answers choose their rows for people, the first ones else
    within = within if answers_choose else replace(within, rows=few)
    shown = summary.tables(chosen, few if answers_choose else None, brief=for_people)
    if form == "text" and output == "-" and (by or tree or unclassified) and not (full or within.tables):
        shown = _answering(by, shown)
    if form == "text" and output == "-" and beyond_screen(shown) and shown[0].sentences:
        shown.append(shown[0])  # the verdict, which has scrolled away
    if form == "csv" and len(by) == 1 and not within.tables:
        shown = _main_of(by[0], shown, summary)
    title = inputs_of(summary) if form == "html" else ", ".join(summary.sources)
    write_figures(shown, form, output, title=title, subject=summary, overwrite=overwrite, limits=within)


#: Tables of the whole -> what of --by they belong to.
_OF_THE_WHOLE = {"overview": "source", "devices": "device", "use": "device", "waits": "device", "steps": "step"}


def _answering(by: tuple[str, ...], tables: list[Table]) -> list[Table]:
    """The verdict and what answers --by, without the tables of the whole, whose notes come first."""
    from ktrace.tables import prose

    levels = {*by, "device"} if "rank" in by else {*by}
    answers = [one for one in tables if _OF_THE_WHOLE.get(one.name.partition(" of ")[0]) in {None, *levels}]
    verdict = [one for one in answers if one.sentences]
    notes = prose("notes", [note for one in tables if one not in answers for note in one.notes])
    return [*verdict, *notes, *(one for one in answers if one not in verdict)]


def _main_of(by: str, tables: list[Table], summary: Summary) -> list[Table]:
    """The one table that answers --by, so that CSV has its headings alone; a note if there is none."""
    answer = summary.answers.get(by)
    name = answer.tables()[0].name if answer else by
    named = [table for table in tables if table.name == name]
    for note in [] if named else summary.notes:
        print_line(note, err=True)
    return named


def _may_be_several(inputs: tuple[str, ...]) -> bool:
    """Whether the inputs may be several traces: several names, a pattern, a folder."""
    import glob
    from pathlib import Path

    return len(inputs) > 1 or any(glob.has_magic(name) or Path(name).is_dir() for name in inputs)
