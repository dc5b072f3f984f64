"""`ktrace check`: whether a recording bears what is asked of it."""

from __future__ import annotations

import click

from ktrace.cli._console import Progress, heading, print_line, put_answer, tell_issues
from ktrace.cli._options import inputs_argument, selection_options
from ktrace.cli._programs import json_option
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import AskOptions, Selection
from ktrace.report import counted
from ktrace.tables import escape_controls


@click.command("check")
@inputs_argument
@json_option
@selection_options(AskOptions)
@click.pass_context
def command(ctx: click.Context, inputs: tuple[str, ...], format_: str, selection: Selection) -> None:
    """Check whether a recording is complete and consistent, before you trust its figures.

    Looks for lost records, clocks that contradict each other, times that were never set, incomplete tables and groups
    of ranks, errors of the profiler itself, several runs in one input. The exit code is 3 if a check fails.
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.analysis.answers.summary.compute import summarise
    from ktrace.analysis.answers.summary.screen import inputs_of
    from ktrace.analysis.questions.checks import CHECKS, PREFIX, failures, sentence

    with Progress(inputs) as progress:
        summary = summarise(list(inputs), by=["idle"], selection=selection, progress=progress.callback)
    broken = failures(summary.checks)
    if format_ == "json":
        laws = [{"code": PREFIX + code, "law": check.law} for code, check in CHECKS.items()]
        failed = [one.document() | {"message": sentence(one)} for one in summary.checks]
        clocks = summary.report.clocks if summary.report else []
        put_answer("check", {"sound": not broken, "failed": failed, "laws": laws, "clocks": clocks})
    else:
        heading(f"{inputs_of(summary)}: {_result(len(broken), len(summary.checks) - len(broken))}")
        for one in summary.checks:
            print_line(f"  {one.code.removeprefix(PREFIX)}: {escape_controls(sentence(one))}")
            for row in one.evidence:
                print_line(f"    {escape_controls(row.name)} of {escape_controls(row.source)} at {row.begin_ns:,} ns")
    if summary.report:
        tell_issues(summary.report)
    if broken:
        ctx.exit(3)


def _result(broken: int, partial: int) -> str:
    failed = f"{broken:,} check{'s fail' if broken != 1 else ' fails'}" if broken else "no failed checks"
    return failed + (f", {counted(partial, 'remark')}" if partial else "")
