"""How commands write tables of figures: to a file or to standard output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import colour, width
from ktrace.errors import UsageError
from ktrace.page.render import FORMATS, rendered

if TYPE_CHECKING:
    from ktrace.diff.model import Diff
    from ktrace.summary.model import Summary
    from ktrace.tables.table import Table

figures_option = click.option(
    "-o", "--output", metavar="OUT", default="-", help="Where to write; the default is standard output."
)

format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="Output format; by default the extension of OUT decides, else text.",
)


def format_of(output: str) -> str:
    """Returns the format that the extension of an output names, else text."""
    suffix = Path(output).suffix.lower().removeprefix(".")
    return {"htm": "html"}.get(suffix, suffix if suffix in FORMATS else "text")


def check_output(output: str, inputs: Sequence[str]) -> None:
    """Raises UsageError if the tables would replace one of their inputs, even with --overwrite."""
    if output != "-" and os.path.realpath(output) in map(os.path.realpath, inputs):
        raise UsageError(f"{output} is an input", remedy="choose another name with -o")


def write_figures(
    tables: Sequence[Table], form: str, output: str, *, title: str, subject: Summary | Diff, overwrite: bool
) -> None:
    """Writes the tables as `form`; `output` is a path, or '-' for standard output.

    Raises OutputError if the file exists or can't be written.
    """
    from ktrace.output.sink import Sink, writing

    if output == "-":
        click.echo(rendered(tables, form, title=title, subject=subject, width=width(), colour=colour()), nl=False)
        return
    with writing(Sink(output, overwrite=overwrite)) as sink:
        text = rendered(tables, form, title=title, subject=subject)
        sink.open().write(text.encode("utf-8", "backslashreplace"))
