"""`ktrace whatif`: what would help."""

from __future__ import annotations

import click

from ktrace.cli._console import Progress, colour, heading, print_line, put_answer, tell_issues, width, write_stdout
from ktrace.cli._options import Grouped, inputs_argument, selection_options
from ktrace.cli._programs import json_option
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import AskOptions, Selection


@click.command("whatif", cls=Grouped)
@inputs_argument
@json_option
@click.option(
    "--scale",
    metavar="NAME=FACTOR",
    multiple=True,
    help="Work of this operation, or with this in its kernel's name, takes FACTOR times as long: gemm=0.5, nccl=0.",
)
@click.option(
    "--overlap",
    metavar="NAME",
    multiple=True,
    help="What is next on its stream doesn't wait for this work; who waits for the stream still does.",
)
@click.option("--graph", is_flag=True, help="Launches are free: from the first to the last between two waits.")
@click.option("--no-sync", is_flag=True, help="Calls of the host don't wait for devices.")
@click.option("--loader", metavar="FACTOR", type=click.FloatRange(0), help="Loading data takes FACTOR times as long.")
@selection_options(AskOptions)
def command(
    inputs: tuple[str, ...],
    scale: tuple[str, ...],
    overlap: tuple[str, ...],
    graph: bool,
    no_sync: bool,
    loader: float | None,
    format_: str,
    selection: Selection,
) -> None:
    """Show what would help: how long a step would take if something took less time, or weren't waited for.

    Replays what waited for what. First it says how far a replay without a change is from the recording; from 1 % on it
    says nothing else, and the exit code is 1. Without a change it tries those that may help, and ranks them.

    \b
    ktrace whatif run.json                         what would help most
    ktrace whatif run.json --scale gemm=0.5 --scale attention=0.7
    ktrace whatif run.json --graph                 launches as one graph
    ktrace whatif run.json --no-sync --loader 0    the host never waits
    ktrace whatif run.json --scale nccl=0          the most that faster communication can save
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.analysis.answers.whatif import whatif
    from ktrace.analysis.answers.whatif.changes import Changes, factors_of
    from ktrace.tables.text import as_text

    changes = Changes(factors_of(scale), overlap, graph, no_sync, loader)
    with Progress(inputs) as progress:
        answer = whatif(list(inputs), changes, selection=selection, progress=progress.callback)
    if format_ == "json":
        put_answer("whatif", answer.document())
    else:
        heading(f"{', '.join(answer.sources)}")
        for sentence in answer.sentences():
            print_line(sentence)
        write_stdout("\n" + as_text(answer.tables(), width=width(), colour=colour()))
    if answer.report:
        tell_issues(answer.report)
