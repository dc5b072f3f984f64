"""`ktrace query`: SQL on any input."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrace.cli._console import (
    Progress,
    check_output,
    colour,
    figures_option,
    is_terminal,
    print_line,
    tell_issues,
    width,
    write_stdout,
)
from ktrace.cli._options import (
    Grouped,
    as_size,
    limit_options,
    overwrite_option,
    selection_options,
)
from ktrace.errors import UsageError
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import AskOptions, Selection
from ktrace.tables import escape_controls

if TYPE_CHECKING:
    from ktrace.analysis.answers.query.children import Bound
    from ktrace.analysis.answers.query.output import RowSource
    from ktrace.tables import Limits

#: The columns of an overview where there is no terminal.
_WIDTH = 100

_FORMATS = ("table", "csv", "tsv", "json", "jsonl", "md", "parquet")


#: Seconds that a query may be given, at most.
_MOST_SECONDS = 1e6


def _seconds(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value <= _MOST_SECONDS:
        raise click.BadParameter(f"{value:g} isn't above 0 and at most {_MOST_SECONDS:,.0f}", ctx, param)
    return value


@click.command("query", cls=Grouped)
@click.argument("arguments", metavar="IN... [SQL]", nargs=-1, type=click.Path(allow_dash=True, readable=False))
@figures_option
@click.option(
    "--format",
    "format_",
    type=click.Choice((*_FORMATS, "nl")),
    help="Output format; by default the extension of OUT decides, else table. nl is jsonl.",
)
@click.option("-p", "--param", "params", metavar="NAME VALUE", nargs=2, multiple=True, help="The value of $NAME.")
@click.option("--no-headers", is_flag=True, help="Leave out the header row of a table, of CSV and TSV.")
@click.option("-r", "--raw", is_flag=True, help="Print only the first column of the first row.")
@click.option("--schema", is_flag=True, help="Show all columns of all views, with type, unit and meaning.")
@click.option(
    "--rows",
    "number",
    type=click.IntRange(1),
    metavar="N",
    help="At most N rows; the default is 1,000 on standard output as table, md and json, else all.",
)
@limit_options(tables=False)
@click.option(
    "--memory", metavar="SIZE", callback=as_size, help="The memory limit of the query, besides the rows that it reads."
)
@click.option("--timeout", metavar="SECONDS", type=float, callback=_seconds, help="The time limit of the query.")
@overwrite_option
@selection_options(AskOptions)
def command(
    arguments: tuple[str, ...],
    output: str,
    format_: str | None,
    params: tuple[tuple[str, str], ...],
    no_headers: bool,
    raw: bool,
    schema: bool,
    number: int | None,
    within: Limits,
    memory: int | None,
    timeout: float | None,
    overwrite: bool,
    selection: Selection,
) -> None:
    """Answer a question in SQL about any input; needs ktrace[sql].

    The views are events, kernels, launches, summaries, links and catalog; times are ns. SQL may be a file, @top.sql,
    or '-' for standard input. Without SQL the views and their columns are shown.

    \b
    ktrace query run.json
    ktrace query run.json "select name, sum(dur) from kernels group by 1 order by 2 desc limit 10"
    ktrace query rank*.json.gz "select source, median(queue) from launches group by 1"
    ktrace query run.sqlite "from events where dur > \\$least" -p least 1000000 -o long.parquet
    """
    inputs, sql = _split(arguments)
    if not inputs and not schema:
        raise click.UsageError("Missing argument 'IN...'.")
    check_output(output, inputs)
    form = _form(format_, output)
    tune_allocator()
    import_pyarrow()
    from ktrace.analysis.answers.query import overview, stream_query
    from ktrace.analysis.answers.query import schema as all_columns
    from ktrace.analysis.answers.query.output import Part
    from ktrace.report import Report

    rows: RowSource
    with ExitStack() as stack:
        if schema:
            rows = _TableRows(all_columns())
        else:
            report = Report()
            with Progress(inputs) as progress:
                if sql is None:
                    rows = _TableRows(overview(list(inputs), selection, report, progress.callback))
                else:
                    parameters = {name.removeprefix("$"): _parse_value(value) for name, value in params}
                    how: Any = {
                        "bound": _bound(memory, timeout),
                        "holder": "parquet" if form == "parquet" else "python",
                    }
                    rows = stack.enter_context(
                        stream_query(
                            inputs,
                            sql,
                            parameters,
                            report=report,
                            selection=selection,
                            progress=progress.callback,
                            **how,
                        )
                    )
            tell_issues(report)
            if sql is None and form == "table" and output == "-":
                _show_overview(rows)
                return
        if within.bytes is not None and form == "parquet":
            raise UsageError("--bytes can't limit parquet", remedy="--rows N")
        within = replace(within, rows=number or (None if raw else _most(form, output)))
        part = Part(rows, within)
        _write(part, form, output, headers=not no_headers, raw=raw, overwrite=overwrite)
        if part.left and form in ("csv", "tsv", "jsonl", "parquet") and not raw:
            print_line(f"left out: {part.left:,} rows; they begin with --after {part.next}", err=True)


def _bound(memory: int | None, seconds: float | None) -> Bound | None:
    """The bound of the query, None where none is asked for: to start a process for it takes half a second."""
    if memory is None and seconds is None:
        return None
    from ktrace.analysis.answers.query.children import Bound

    return Bound(memory, seconds)


def _most(form: str, output: str) -> int | None:
    """How many rows there are without --rows: a table needs the widths of all, and few want 50 MB on a terminal."""
    from ktrace.analysis.answers.query.output import MOST

    return MOST if output == "-" and form in ("table", "md", "json") else 10 * MOST if form in ("table", "md") else None


class _TableRows:
    """A table as rows."""

    def __init__(self, table: Any) -> None:
        self.table, self.schema = table, table.schema

    def __iter__(self) -> Any:
        return iter(self.table.to_batches())


def _split(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The inputs, and the SQL where the last argument is one: it has spaces and isn't a file, or is @FILE or '-'."""
    *inputs, last = arguments or ("",)
    if last == "-" and inputs:
        return tuple(inputs), sys.stdin.read() if sys.stdin else ""
    if last.startswith("@") and not Path(last).exists():
        try:
            return tuple(inputs), Path(last[1:]).read_text("utf-8")
        except OSError as error:
            raise UsageError(f"{last[1:]}: {error.strerror}", expected="a file with SQL after the @") from None
        except UnicodeDecodeError:
            raise UsageError(f"{last[1:]} isn't text", expected="a file with SQL after the @") from None
    is_file = Path(last[:255]).exists() or bool(glob(last))  # noqa: PTH207 (the pattern may be absolute)
    return (tuple(inputs), last) if len(last.split()) > 1 and not is_file else (arguments, None)


def _form(format_: str | None, output: str) -> str:
    """The format: that of the option, else that of the output's name, else a table. Raises UsageError."""
    from ktrace.analysis.answers.query.output import SUFFIXES

    if format_ is not None:
        return SUFFIXES.get(format_, format_)
    if output == "-":
        return "table"
    suffix = Path(output).suffix.lower().removeprefix(".")
    suffix = SUFFIXES.get(suffix, suffix)
    if suffix not in _FORMATS:
        raise UsageError(f"{output}: no format has this extension", expected=", ".join(_FORMATS), remedy="use --format")
    return suffix


def _parse_value(text: str) -> int | float | str:
    """The value of a parameter: a number where it is one, else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _show_overview(rows: Any) -> None:
    from ktrace.analysis.answers.query import as_lines

    write_stdout(as_lines(rows.table, width() or _WIDTH))


def _write(rows: RowSource, form: str, output: str, *, headers: bool, raw: bool, overwrite: bool) -> None:
    from ktrace.analysis.answers.query.output import first_value, texts, write_parquet
    from ktrace.output import Sink, writing

    if output == "-" and form != "parquet":
        pieces = texts(rows, form, headers=headers, width=width(), colour=colour())
        for piece in [f"{first_value(rows)}\n"] if raw else pieces:
            write_stdout(_for_terminal(piece) if raw or form not in ("table", "md") else piece)
        return
    with writing(Sink(output, overwrite=overwrite)) as sink:
        stream = sink.open()
        if form == "parquet" and not raw:
            write_parquet(rows, stream)
            return
        for piece in [f"{first_value(rows)}\n"] if raw else texts(rows, form, headers=headers):
            stream.write(piece.encode("utf-8", "backslashreplace"))


def _for_terminal(text: str) -> str:
    """Returns the text as it is, on a terminal with escapes for what would steer it."""
    return re.sub(r"[^\n\t]+", lambda match: escape_controls(match[0]), text) if is_terminal() else text
