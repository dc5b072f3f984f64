"""How commands print: with rich on a terminal, as plain text when piped or when NO_COLOR is set.

Without rich (the extra `ktrace[terminal]`) tables are plain text and there is no progress bar. Tables of figures go to
standard output or to a file; what was noted, repaired or skipped to standard error, and with `--report` to a file.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from shlex import quote
from textwrap import wrap
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ktrace.cli._programs import json_errors_enabled, note_line
from ktrace.errors import OutputError, UsageError
from ktrace.page.render import WRITTEN, rendered
from ktrace.report import counted
from ktrace.tables import Limits, brief, escape_controls, fitted, long_time_text, size, time_text

if TYPE_CHECKING:
    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.fleet.batch import BatchReport
    from ktrace.report import Report
    from ktrace.tables import Table


def print_line(line: str = "", *, err: bool = False, by_words: bool = False, **facts: object) -> None:
    """Prints a line; to standard error as JSON with these facts, if programs read it.

    Names in it come from other people's files: they neither steer the terminal nor begin a line. In a GitHub workflow
    they give no commands to the runner, either, which finds those in every printed line. `by_words` breaks the line
    between words, if it is longer than a terminal; not for what is copied, such as a command.
    """
    if err and json_errors_enabled():
        tell_json(note_line(line, facts))
        return
    line = escape_controls(line)
    if "GITHUB_ACTIONS" in os.environ:
        line = re.sub(r"^(\s*):(?=:)", r"\1\\x3a", line).replace("##[", r"#\x23[")
    if by_words and is_terminal(sys.stderr if err else sys.stdout):
        columns = shutil.get_terminal_size().columns
        pieces = wrap(line, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        line = "\n".join(pieces)
    click.echo(line, err=err)


def tell_json(line: str) -> None:
    """Prints a line of JSON to standard error; nothing if it is empty."""
    if line:
        click.echo(line, err=True)


def put_answer(schema: str, members: Mapping[str, object]) -> None:
    """Prints the answer of a command as JSON."""
    from ktrace.tables.text import answer

    write_stdout(answer(schema, members))


def write_stdout(text: str | bytes, end: str = "") -> None:
    """Prints text that is ready: tables, CSV, JSON."""
    click.echo(text if isinstance(text, bytes) else text + end, nl=False)


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that the caller has closed: what is printed is an error, instead of lost."""

    closed = True

    def write(self, text: str) -> NoReturn:
        """Raises OutputError."""
        raise OutputError("standard output is closed", expected="a file, a pipe or a terminal", remedy="> FILE")

    def flush(self) -> None:
        """Does nothing: there is nothing to flush."""

    def isatty(self) -> bool:
        """No terminal."""
        return False


def is_terminal(stream: Any = None) -> bool:
    """Returns whether the stream (stdout by default) is a terminal."""
    stream = stream or sys.stdout
    return bool(stream and stream.isatty())


def has_rich() -> bool:
    """Returns whether rich is installed."""
    return find_spec("rich") is not None


def shows_progress() -> bool:
    """Returns whether stderr is a terminal that shows a progress bar."""
    return is_terminal(sys.stderr) and has_rich() and not json_errors_enabled()


def width() -> int | None:
    """Returns the width of the terminal on stdout in columns, None if stdout isn't a terminal."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def beyond_screen(tables: Sequence[Table]) -> bool:
    """Returns whether the tables have more lines than the terminal on stdout; False if that isn't a terminal."""
    lines = sum(len(table.rows) + len(table.notes) + 3 for table in tables)
    return is_terminal() and lines > shutil.get_terminal_size().lines


def colour() -> bool:
    """Returns whether output may have colours: stdout is a terminal and NO_COLOR isn't set."""
    return is_terminal() and "NO_COLOR" not in os.environ


#: The width of tables with long texts where there is no terminal.
_PIPED = 100


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = (), wrapped: Sequence[int] = ()
) -> None:
    """Prints a table: fitted to a terminal, or with columns two spaces apart.

    `right` lists the columns of numbers, `wrapped` those of long texts, which share what 100 columns leave them.
    """
    rows = [list(map(escape_controls, row)) for row in rows]
    if is_terminal() and has_rich():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column, heading in enumerate(headings):
            table.add_column(heading, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    every = [list(headings), *rows]
    widths = _widths(every, wrapped)
    for line in _wrapped_rows(every, widths, wrapped):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print_line("  ".join(cells).rstrip())


def _widths(rows: Sequence[Sequence[str]], wrapped: Sequence[int]) -> list[int]:
    """The widths of columns; those that are wrapped share the rest of the line, if it is too short for them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    whole = sum(widths[column] for column in wrapped)
    rest = _PIPED - sum(widths) - 2 * (len(widths) - 1) + whole
    for column in reversed(wrapped):
        longest = max(len(word) for row in rows for word in row[column].split() or [""])
        share, whole = rest * widths[column] // max(whole, 1), whole - widths[column]
        widths[column] = min(widths[column], max(share, longest))
        rest -= widths[column]
    return widths


def _wrapped_rows(rows: Sequence[Sequence[str]], widths: Sequence[int], wrapped: Sequence[int]) -> Iterator[list[str]]:
    """Yields the lines of each row."""
    for row in rows:
        pieces = [
            wrap(cell, width, break_long_words=False, break_on_hyphens=False) if column in wrapped else [cell]
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield from map(list, zip_longest(*pieces, fillvalue=""))


def heading(text: str) -> None:
    """Prints a heading, bold where colours are allowed."""
    if colour():
        click.echo(click.style(escape_controls(text), bold=True))
    else:
        print_line(text)


class Progress:
    """A progress bar on stderr for work that takes over a second; shown only if stderr is a terminal.

    It has no thread of its own, since a second thread would keep readers from forking.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._total = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
        self._taken = 0
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    @property
    def callback(self) -> Callable[[int], None] | None:
        """The function to call with the number of bytes read, None without a terminal or rich."""
        return self._advance if shows_progress() else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def _advance(self, taken: int) -> None:
        self._taken += taken
        if self._bar:
            self._bar.update(self._task, completed=self._taken)
            self._bar.refresh()
        elif time.monotonic() - self._start > 1:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._task = self._bar.add_task("reading", total=self._total or None, completed=self._taken)
            self._bar.start()


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
    tables: Sequence[Table],
    form: str,
    output: str,
    *,
    title: str,
    subject: Summary | Diff,
    overwrite: bool,
    limits: Limits | None = None,
) -> None:
    """Writes the tables as `form`, as far as `limits` allow; `output` is a path, or '-' for standard output.

    Raises OutputError if the file exists or can't be written, UsageError for a workbook on a terminal, and for limits
    that it can't have.
    """
    limits = limits or Limits()
    tables = limits.select(tables)
    terminal: dict[str, Any] = {"width": width(), "colour": colour()} if output == "-" else {}

    def text(tables: Sequence[Table]) -> str:
        return rendered(
            tables, form, title=title, subject=subject, findings=limits.findings, command=typed(), **terminal
        )

    if limits.bytes is not None and form in ("html", "xlsx"):
        raise UsageError(f"--bytes can't limit {form}", expected="text, csv, json, md")
    if output == "-" and form == "xlsx" and is_terminal():
        raise UsageError("a workbook isn't text for a terminal", remedy="name a file with -o run.xlsx")
    if form == "xlsx":
        from ktrace.tables.workbook import as_workbook

        content: str | bytes = as_workbook(tables, title=title, path=None if output == "-" else output)
    else:
        content = text(tables) if limits.bytes is None else fitted(tables, text, limits.bytes)
    write_text(content, output, overwrite=overwrite)
    if output != "-" and is_terminal():
        open_it = ". Open it in a browser" if form == "html" else ""
        print_line(f"{output}, {size(Path(output).stat().st_size)}{open_it}", err=True)


def typed() -> str:
    """The line that runs, without the names and passwords of its URLs; "" where ktrace isn't the program that runs."""
    words = click.get_current_context().find_root().obj
    return re.sub(r"(?<=://)[^/@\s]+@", "", " ".join(map(quote, ["ktrace", *words]))) if words else ""


def write_text(content: str | bytes, output: str, *, overwrite: bool) -> None:
    """Writes to a path, or '-' for standard output. Raises OutputError if the file exists or can't be written."""
    from ktrace.output import Sink, writing

    if output == "-":
        write_stdout(content)
        return
    with writing(Sink(output, overwrite=overwrite)) as sink:
        sink.open().write(content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace"))


#: Characters of a detail that are shown.
_DETAIL = 120

#: Kinds of issue that users must see although the exit code is 0: they make the result doubtful.
_LABELS = {"broken-format": "warning", "cut": "warning", "residual-large": "warning"}


@contextmanager
def account_file(path: str | None, others: Iterable[str]) -> Iterator[Callable[[Report | BatchReport], None]]:
    """Yields a function that writes the account to the file of `--report`; without `--report` it does nothing.

    The file appears at the end of the block; a device or pipe gets the account at once. The function raises OutputError
    if the account can't be written. Raises UsageError if the file is one of the `others`, the inputs and the
    output of the command.
    """
    if path is None:
        yield lambda account: None
        return
    from ktrace.output import Sink, disk_errors, writing

    if path == "-" or os.path.realpath(path) in map(os.path.realpath, others):
        raise UsageError("--report needs a separate file", expected="a path other than '-', the inputs and the output")
    with writing(Sink(path, overwrite=True)) as sink:

        def write(account: Report | BatchReport) -> None:
            text = json.dumps(account.to_dict(), indent=1, ensure_ascii=False) + "\n"
            with disk_errors(path):
                sink.open().write(text.encode("utf-8", "backslashreplace"))
                sink.pass_on()

        yield write


def print_report(account: Report, output: str) -> None:
    """Prints the issues of an output, its parts, how its sources were aligned, and the totals."""
    tell_issues(account)
    begin = min((part["start_ns"] for part in account.parts if part["start_ns"] is not None), default=0)
    for part in account.parts:
        times = [time_text(part[name] - begin) for name in ("start_ns", "end_ns") if part[name] is not None]
        when = f", {'..'.join(times)}" if times else ""
        print_line(f"{part['path']}: {counted(part['rows'], 'row')}, {counted(part['bytes'], 'byte')}{when}", err=True)
    tell_alignment(account)
    print_line(f"{output}: {account.line()}", err=True)
    if not json_errors_enabled() and (outcome := _outcome(account, output)):
        print_line(outcome, err=True)


#: Formats of metrics of kernels, without a timeline of their own.
_METRICS = ("ncu", "ncu-rep")


def tell_metrics(account: Report, output: str) -> None:
    """Prints how metrics get onto the kernels of a timeline, if an input has metrics and another one has a timeline."""
    metrics = [one["path"] for one in account.inputs if one["format"] in _METRICS]
    others = [one["path"] for one in account.inputs if one["format"] not in _METRICS]
    if metrics and others and not json_errors_enabled():
        given = " ".join([*map(quote, others), *(f"--metrics {quote(path)}" for path in metrics), "-o", quote(output)])
        print_line(f"hint: did you mean --metrics? Kernels get their metrics by ktrace convert {given}", err=True)


#: How to go on with a file, by its last suffix.
_NEXT = {
    **dict.fromkeys((".perfetto", ".pftrace", ".perfetto-trace"), "Open it: ktrace view {name}"),
    ".parquet": 'Ask it: ktrace query {name} "from kernels"',
}


def _outcome(account: Report, output: str) -> str:
    """A line on the written file and how to go on; "" where the output isn't a file."""
    path = Path(output)
    if output == "-" or account.parts or not path.is_file():
        return ""
    what = counted(account.events_drawn, "event") if account.events_drawn else counted(account.written, "row")
    joined = f" ({counted(account.launches_joined, 'launch')} joined to the work)" if account.launches_joined else ""
    go_on = _NEXT.get(path.suffix.lower(), "").format(name=quote(output))
    return f"{output}, {size(path.stat().st_size)}: {what}{joined}{f'. {go_on}' if go_on else ''}"


def tell_issues(account: Report) -> None:
    """Prints a line for each kind of issue, the worst first, with its first places and the first detail."""
    for issue in sorted(account.issues.values(), key=lambda issue: -issue.severity):
        places = ", ".join(dict.fromkeys(escape_controls(where) for where, _ in issue.places[:3]))
        more = ", ..." if len(issue.places) > 3 else ""
        what = f"{issue.rows:,} x {issue.kind}" if issue.rows else issue.kind
        detail = next((one for _, one in issue.places if one and one not in issue.sentence), "").partition("\n")[0]
        first = f" First: {escape_controls(detail if issue.kind in _LABELS else detail[:_DETAIL])}" if detail else ""
        label = _LABELS.get(issue.kind, issue.severity.name.lower())
        facts = {"kind": issue.kind, "severity": issue.severity.name.lower(), "message": issue.sentence}
        occurrences = [{"place": where, "detail": detail} for where, detail in issue.places]
        line = f"{label}: {what} ({places}{more}): {issue.sentence}{first}"
        print_line(line, err=True, by_words=True, **facts, rows=issue.rows, places=occurrences)


def tell_cut(account: Report) -> None:
    """Prints a warning if an input is cut off, for commands that print no other issues."""
    if issue := account.issues.get("cut"):
        where, detail = issue.places[0]
        print_line(
            f"warning: {issue.sentence} ({escape_controls(where)}: {escape_controls(detail[:_DETAIL])})", err=True
        )


#: Rule of a source -> the words of its line.
_RULES = {
    "reference": "reference clock",
    "unix": "by unix time",
    "begin": "begins with the first source, since nothing relates their clocks",
    "same clock": "same clock as another source",
    "as it is": "no times to align",
    "none": "times unchanged",
    "marker": "by the marker",
}


def tell_alignment(account: Report) -> None:
    """Prints by how much the times of each source moved, by which rule, and the residual.

    Many sources of which the same is said share a line.
    """
    alike: dict[str, list[tuple[str, int]]] = {}
    for entry in account.alignment:
        words = [_RULES.get(entry["rule"], entry["rule"])]
        if "matched" in entry:
            words[0] = f"by {counted(entry['matched'], 'collective')}" + (
                f" with {entry['through']}" if "through" in entry else ""
            )
            median, p95 = (brief(entry[f"residual_{name}_ns"]) for name in ("median", "p95"))
            words.append(f"residual {median} median, {p95} p95")
        if "drift_ppm" in entry:
            words.append(f"drift {entry['drift_ppm']:+.3f} ppm")
        if entry.get("outliers"):
            words.append(counted(entry["outliers"], "outlier"))
        if "shift_ns" in entry:
            words.append(f"keeping the shift of {_signed(entry['shift_ns'])} made at export")
        if "shift_undone_ns" in entry:
            words.append(f"undoing the shift of {_signed(entry['shift_undone_ns'])} made at export")
        if "extra_ns" in entry:
            words.append(f"plus {_signed(entry['extra_ns'])} from --offset")
        alike.setdefault(", ".join(words), []).append((entry["source"], entry["offset_ns"]))
    for said, sources in alike.items():
        for line in _moved(sources):
            print_line(f"{line}{said}", err=True)


#: So many sources of which the same is said have a line each.
_ALIKE = 3


def _moved(sources: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yields the beginnings of the lines about sources: their names, and by how much their times moved."""
    if len(sources) <= _ALIKE:
        yield from (f"{name}: {f'{_signed(by)}, ' if by else ''}" for name, by in sources)
        return
    from ktrace.model.tracks import natural  # it loads pyarrow

    names = sorted((name for name, _ in sources), key=natural)
    least, most = (of(by for _, by in sources) for of in (min, max))
    moved = f"{_signed(least)} to {_signed(most)}" if least != most else _signed(least) if least else ""
    yield f"{names[0]} to {names[-1]}, {len(sources):,} sources: {f'{moved}, ' if moved else ''}"


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + long_time_text(ns)


def tell_labels(account: Report, output: str) -> None:
    """Prints how to get operation, library and precision, if the output is a Parquet file with kernels that lack them.

    It looks at the first row group.
    """
    path = Path(output)
    if not path.is_file() or any(ledger.stage == "classify" for ledger in account.stages):
        return
    with path.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            return
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    if not {"kind", "operation"} <= set(file.schema_arrow.names) or not file.num_row_groups:
        return
    rows = file.read_row_group(0, columns=["kind", "operation"])
    kernels = rows.filter(pc.equal(rows["kind"], "kernel"))
    if kernels.num_rows and kernels["operation"].null_count == kernels.num_rows:
        print_line(f"{output}: kernels have no operation, library and precision; --classify adds them", err=True)
