"""`ktrace validate`: canonical files against the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrace.cli._console import print_line, put_answer, tell_issues, write_stdout
from ktrace.cli._options import limits_option
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.report import counted
from ktrace.tables.annotations import annotation

if TYPE_CHECKING:
    from ktrace.pipeline.validate import Validation


@click.command("validate")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False))
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    show_default=True,
    help="Maximum number of faults shown per file.",
)
@limits_option
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], style: str, limit: int) -> None:
    """Check canonical files (.jsonl, .json, .parquet, .csv) against the schema.

    FILE may be a pattern, a URL, or a folder: a canonical folder as a whole, otherwise the canonical files in it.
    Shows the first faults of each file with record number, JSON path and reason. The exit code is 0 if there are
    no faults, else 1. `--format github` prints them as annotations of a GitHub workflow.
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.pipeline.validate import canonical_inputs, validate
    from ktrace.report import Report

    report = Report()
    inputs = canonical_inputs(paths, report)
    tell_issues(report)
    results = []
    for path in inputs:
        result = validate(path, limit=limit)
        results.append((path, result))
        if style == "text":
            _print_text(path, result)
        elif style == "github":
            for fault in result.faults:
                place = {"file": path} | ({"line": fault.line} if fault.line else {})
                message = f"record {fault.record}: {fault.path}: {fault.reason}"
                write_stdout(annotation("error", message, **place), "\n")
    if style == "json":
        from msgspec import to_builtins

        files = [{"file": path, "valid": not result.faults, **to_builtins(result)} for path, result in results]
        put_answer("validate", {"valid": not any(result.faults for _, result in results), "files": files})
    if any(result.faults for _, result in results):
        ctx.exit(1)


def _print_text(path: str, result: Validation) -> None:
    for fault in result.faults:
        print_line(f"{path}: record {fault.record}: {fault.path}: {fault.reason}")
    records = counted(result.checked, "record")
    if result.faults:
        print_line(f"{path}: not valid ({records} checked)")
    else:
        print_line(f"{path}: valid, {records}, model {result.version}")
