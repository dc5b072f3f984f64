"""How commands write tables of figures: to a file or to standard output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import colour, is_terminal, put, width
from ktrace.errors import UsageError
from ktrace.page.render import WRITTEN, encoded, rendered

if TYPE_CHECKING:
    from ktrace.analysis.diff.comparison import Diff
    from ktrace.analysis.summary.summary import Summary
    from ktrace.tables.table import Table

figures_option = click.option(
    "-o", "--output", metavar="OUT", default="-", help="Where to write; the default is standard output."
)

format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(WRITTEN),
    help="Output format; by default the extension of OUT decides, else text.",
)

#: Extension -> format.
_SUFFIXES = {".txt": "text", ".text": "text", ".htm": "html"} | {f".{name}": name for name in WRITTEN if name != "text"}


def format_of(output: str) -> str:
    """Returns the format that the extension of an output names, text for standard output.

    Raises UsageError for another extension, or none.
    """
    if output == "-":
        return "text"
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"can't tell the format of the tables from the name '{output}'",
            expected=f"a name that ends in {', '.join(_SUFFIXES)}",
            remedy="name the format with --format",
        )
    return _SUFFIXES[suffix]


def check_output(output: str, inputs: Sequence[str]) -> None:
    """Raises UsageError if the tables would replace one of their inputs, even with --overwrite."""
    if output != "-" and os.path.realpath(output) in map(os.path.realpath, inputs):
        raise UsageError(f"{output} is an input", remedy="choose another name with -o")


def write_figures(
    tables: Sequence[Table], form: str, output: str, *, title: str, subject: Summary | Diff, overwrite: bool
) -> None:
    """Writes the tables as `form`; `output` is a path, or '-' for standard output.

    Raises OutputError if the file exists or can't be written, UsageError for a workbook on a terminal.
    """
    from ktrace.output.sink import Sink, writing

    if output == "-" and form == "xlsx":
        if is_terminal():
            raise UsageError("a workbook isn't text for a terminal", remedy="name a file with -o run.xlsx")
        put(encoded(tables, form, title=title))
    elif output == "-":
        put(rendered(tables, form, title=title, subject=subject, width=width(), colour=colour()))
    else:
        with writing(Sink(output, overwrite=overwrite)) as sink:
            sink.open().write(encoded(tables, form, title=title, subject=subject, path=output))
