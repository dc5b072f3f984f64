"""`ktrace view`: a trace in the browser."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import Progress, print_line, tell_alignment, tell_issues
from ktrace.cli._options import (
    Grouped,
    gpu_option,
    inputs_argument,
    overwrite_option,
    selection_options,
)
from ktrace.errors import KtraceError
from ktrace.parallel.interruption import INTERRUPTION
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import ReadOptions, Selection
from ktrace.report import counted

if TYPE_CHECKING:
    from ktrace.viewer import View

#: Seconds for which ui.perfetto.dev may fetch the trace, without --timeout.
TIMEOUT = 600


@click.command("view", cls=Grouped)
@inputs_argument
@click.option("-o", "output", metavar="OUT.html", help="Write the overview to a file, and don't open anything.")
@click.option("--offline", is_flag=True, help="Serve the Perfetto UI from this machine, too; needs ktrace[viewer].")
@click.option(
    "--overview/--full",
    default=None,
    help="Show the overview first, or everything at once; by default an overview above 300,000 rows.",
)
@click.option("--engine", is_flag=True, help="Let Perfetto's engine on this machine load all of it; implies --full.")
@click.option("--no-cache", is_flag=True, help="Don't cache what was read.")
@click.option("--no-browser", is_flag=True, help="Print the link without opening a browser.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help=f"Stop after this time; the default is {TIMEOUT}, or no limit with --offline.",
)
@gpu_option
@overwrite_option
@selection_options(ReadOptions, "capture", "repair_clock", "explain", "budget")
def command(
    inputs: tuple[str, ...],
    offline: bool,
    overview: bool | None,
    engine: bool,
    output: str | None,
    overwrite: bool,
    no_cache: bool,
    no_browser: bool,
    timeout: float | None,
    gpu: str,
    selection: Selection,
) -> None:
    """Open traces in the Perfetto UI, large ones by an overview of the whole run.

    IN is converted if necessary, then served from this machine to your browser until the browser has fetched it. The
    clocks of several inputs are aligned, as by `ktrace merge`. Above 300,000 rows an overview opens first; from
    it, any part of the run opens in the Perfetto UI.

    \b
    ktrace view run.log
    ktrace view run.sqlite --step 3      a step of it
    ktrace view run.log --offline        without a network
    ktrace view big.json -o run.html     the overview as a file to send
    ktrace view big.json --engine        all of it, by Perfetto's own engine
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.viewer import served
    from ktrace.viewer.ui import ANY_ADDRESS, UI

    if engine and (overview or output):
        raise click.UsageError("--engine opens all of the trace: it goes with neither --overview nor -o")
    if output:
        _write(inputs, output, overwrite, selection, cached=not no_cache)
        return
    if engine:
        _ensure_engine()
    with ExitStack() as stack:
        with Progress(inputs) as progress:
            view = stack.enter_context(
                served(
                    list(inputs),
                    offline=offline,
                    overview=overview,
                    engine=engine,
                    cached=not no_cache,
                    gpu=gpu,
                    selection=selection,
                    progress=progress.callback,
                )
            )
        if view.account:
            tell_issues(view.account)
            tell_alignment(view.account)
        print_line(view.link)
        if view.overview is not None:
            rows = view.overview.stored.rows
            print_line(
                f"an overview of {counted(rows, 'row')}, from which parts open in Perfetto; --full opens all of it",
                err=True,
            )
        if view.engine is not None:
            print_line(f"Perfetto's engine {view.engine.version} loads it ({view.engine.program})", err=True)
            if not offline:
                print_line(f"the first time, enable {UI}/#!/flags/{ANY_ADDRESS}, and open the link again", err=True)
        if sys.stdout:
            sys.stdout.flush()
        if not no_browser and not view.open():
            print_line("this machine has no screen: open the link in a browser on this machine", err=True)
        _wait(view, offline or engine or view.overview is not None, timeout)


def _ensure_engine() -> None:
    """Offers to fetch an engine if there is none, and somebody to ask. Raises KtraceError if that fails."""
    from ktrace.viewer.engine import MissingEngine, fetch, find

    try:
        find()
    except MissingEngine:
        if not (sys.stdin and sys.stdin.isatty()):
            raise
        question = (
            "There is no Perfetto engine on this machine. Let the package perfetto download the one that it uses?"
        )
        if not click.confirm(question, err=True):
            raise
        fetch()


def _write(inputs: tuple[str, ...], output: str, overwrite: bool, selection: Selection, *, cached: bool) -> None:
    """Writes the overview to a file."""
    from ktrace.output import Sink, writing
    from ktrace.page.overview_page import one_file
    from ktrace.pipeline.overview import overviewed, without_slices

    with Progress(inputs) as progress:
        written = overviewed(list(inputs), selection, cached=cached, progress=progress.callback)
        with written as (overview, account), writing(Sink(output, overwrite=overwrite)) as sink:
            if not len(overview.stored.cells):
                raise without_slices(overview)
            sink.open().write(overview.sure(lambda: one_file(overview)).encode())
    tell_issues(account)
    tell_alignment(account)


def _wait(view: View, serves: bool, timeout: float | None) -> None:
    """Serves until the trace has been fetched (a UI or an overview: until Ctrl-C), or until the timeout."""
    from ktrace.viewer import wait_for

    if serves:
        print_line("serving the trace to the browser; Ctrl-C stops", err=True)
        try:
            wait_for(threading.Event(), timeout)
        except KeyboardInterrupt:
            if not view.wait(0.5):
                raise
            INTERRUPTION.settle()
        seconds = 0.0
    else:
        print_line("serving the trace until the browser has fetched it; Ctrl-C stops", err=True)
        seconds = timeout or TIMEOUT
    if not view.wait(seconds):
        raise KtraceError(
            f"no browser has fetched the trace in {timeout or TIMEOUT:g} seconds",
            expected="a browser that lets the page reach this machine: Chrome asks for permission, Safari refuses",
            remedy="open the link sooner, allow more time with --timeout, or use --offline",
        )
