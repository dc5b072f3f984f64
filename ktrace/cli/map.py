"""`ktrace map`: which column of a table is which field."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ktrace.cli._console import heading, print_line, print_table, put_answer, tell_issues
from ktrace.cli._options import overwrite_option, selection_options
from ktrace.cli._programs import json_option
from ktrace.errors import KtraceError, UsageError
from ktrace.parallel.startup import import_pyarrow
from ktrace.pipeline.selection import Selection
from ktrace.report import counted
from ktrace.tables import duration, escape_controls, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from ktrace.input.mapping import ColumnMap, Proposal
    from ktrace.pipeline.propose import Trial

#: Rows and columns of rows that are shown, and characters of a cell.
_ROWS, _CELL = 5, 40

#: Columns that aren't shown: they are the same in all rows, or repeat others.
_HIDDEN = frozenset({"source", "timing", "metric", "table", "copy_kind"})


@click.command("map")
@click.argument("path", metavar="FILE", type=click.Path(readable=False))
@click.option("-o", "--output", metavar="OUT.toml", help="Keep the mapping in this file, for --map.")
@json_option
@click.option(
    "--line",
    "lines",
    multiple=True,
    metavar="PATTERN",
    help="Lines that aren't a table, with fields in braces: '{name} took {dur} ms'. Or the numbers of some: 3,5,9.",
)
@click.option(
    "--write", is_flag=True, help="Keep the mapping next to FILE (FILE.ktrace.toml), where it is found again."
)
@overwrite_option
@selection_options("map", "limits")
def command(
    path: str,
    write: bool,
    output: str | None,
    format_: str,
    lines: tuple[str, ...],
    overwrite: bool,
    selection: Selection,
) -> None:
    """Guess which column of a table (CSV, TSV, JSON Lines) is which field, and show the first rows read that way.

    Nothing is written without --write or -o. --map replaces single guesses. --line reads lines that aren't a table.

    \b
    ktrace map run.csv                              the guess
    ktrace map run.csv --map start=t0:ms --write    a unit corrected, and kept as run.csv.ktrace.toml
    ktrace convert run.csv -o run.perfetto          reads it by that mapping
    ktrace map run.log --line '{name} took {dur} ms on {device}'
    ktrace map run.log --line 12,14,19              a pattern of lines such as these
    """
    if write and output:
        raise UsageError("--write and -o can't go together", remedy="leave out one of them")
    if path == "-":
        raise UsageError("standard input can be read only once", remedy="save it to a file first")
    map_ = None if selection.map is None else str(selection.map)
    import_pyarrow()
    from ktrace.pipeline.propose import completed, known_as, propose, tried, write_mapping

    proposal, for_people = propose(path, lines), format_ == "text"
    if for_people:
        print_line(f"{escape_controls(path)}: {proposal.layout}")
    if fmt := known_as(path):
        reason = f"it {fmt.reason}"
        print_line(f"note: ktrace reads it as {fmt.format} without a mapping: {escape_controls(reason)}", err=True)
    guesses = _guessed(proposal, map_)
    if for_people:
        _show_guesses(proposal, guesses)
    mapping = _completed(proposal, map_, completed)
    trial = tried(path, mapping)
    if for_people:
        _show_rows(trial)
    tell_issues(trial.report)
    place = write_mapping(path, mapping, output, overwrite=overwrite) if write or output else None
    if not for_people:
        put_answer("map", _document(path, proposal, guesses, trial, mapping.text(), place))
    elif place:
        print_line(err=True)
        print_line(f"{place}: written", err=True)
    else:
        print_line()
        print_line("nothing was written. To keep it next to the file, or to use it once:")
        given = "".join(f" --line {_shell(line)}" for line in lines) + (f" --map {_shell(map_)}" if map_ else "")
        print_line(f"  ktrace map {shlex.quote(path)}{given} --write")
        print_line(f"  ktrace convert {shlex.quote(path)} -o OUT --map {_shell(mapping.text())}")


def _document(
    path: str, proposal: Proposal, guesses: list[_Guessed], trial: Trial, mapping: str, place: Path | None
) -> dict[str, Any]:
    """What is guessed, and the first rows read that way, for programs."""
    begin, end, busy = trial.span or (None, None, None)
    return {
        **{"path": path, "layout": proposal.layout, "mapping": mapping, "written": str(place) if place else None},
        "fields": [one._asdict() for one in guesses],
        "arguments": _arguments(proposal, guesses),
        **{"records": trial.report.read, "rows_read": len(trial.rows)},
        **{"begin_ns": begin, "end_ns": end, "busy_ns": busy},
        "rows": [
            {
                name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                for name, value in row.items()
            }
            for row in trial.rows[:_ROWS]
        ],
    }


def _shell(text: str) -> str:
    """A text as a word of a shell; one with single quotes in double ones, where these are easier to read."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def _completed(proposal: Proposal, map_: str | None, completed: Any) -> ColumnMap:
    """Returns the whole mapping. Raises UsageError with the columns if something is missing."""
    try:
        mapping: ColumnMap = completed(proposal, map_)
    except KtraceError as error:
        if not map_ and proposal.lacks:
            error.what = f"{proposal.lacks}, so that the guess isn't a mapping"
            error.expected = f"--map FIELD=COLUMN,... for the columns {', '.join(proposal.columns)}"
            error.remedy = "for instance --map name=COLUMN,start=COLUMN:us,dur=COLUMN:us"
        raise
    return mapping


class _Guessed(NamedTuple):
    """A field, the column that fills it (if one does), and why; `value` is the column with its unit, or a setting."""

    field: str
    column: str | None
    value: str
    sure: bool
    because: str


def _guessed(proposal: Proposal, map_: str | None) -> list[_Guessed]:
    """What fills which field."""
    from ktrace.input.mapping import parts_of

    given = parts_of(map_).cells if map_ else {}
    replaced = proposal.mapping().changed(parts_of(map_)).cells if map_ else proposal.mapping().cells
    rows = [
        _Guessed(guess.field, guess.cell.column, str(guess.cell), guess.sure, guess.because)
        for guess in proposal.guesses
        if (proposal.lines or guess.field in replaced) and guess.field not in given
    ]
    rows += [_Guessed(name, cell.column, str(cell), True, "by --map") for name, cell in given.items()]
    rows += [_Guessed("decimal", None, "comma", True, "by the cells")] if proposal.decimal == "comma" else []
    return rows + ([_Guessed("clock", None, "unix", True, "the starts are dates")] if proposal.clock == "unix" else [])


def _arguments(proposal: Proposal, guesses: list[_Guessed]) -> list[str]:
    """The columns that no field takes."""
    taken = {guess.column for guess in guesses}
    return [name for name in proposal.columns if name not in taken]


def _show_guesses(proposal: Proposal, guesses: list[_Guessed]) -> None:
    """Prints what fills which field, and why."""
    rows = [(one.field, escape_controls(one.value), "" if one.sure else "?", one.because) for one in guesses]
    print_table(("field", "column", "", "why"), rows)
    if rest := _arguments(proposal, guesses):
        print_line(f"arguments: {shortened(escape_controls(', '.join(rest)), 200)}")
    if not all(guess.sure for guess in guesses):
        print_line("'?' marks guesses that the table doesn't confirm: compare the times below with what you know.")


def _show_rows(trial: Trial) -> None:
    """Prints the first rows, with times as people read them."""
    shown = trial.rows[:_ROWS]
    print_line()
    heading("the first rows, read that way")
    names = list(
        dict.fromkeys(name for row in shown for name in row if name not in _HIDDEN and not name.startswith("args"))
    )
    front = [name for name in ("id", "kind", "name", "ts", "dur") if name in names]
    names = [*front, *(name for name in names if name not in front)]
    cells = [[_cell(name, row.get(name), trial) for name in names] for row in shown]
    print_table(["line" if name == "id" else name for name in names], cells)
    report = trial.report
    print_line(f"{counted(len(trial.rows), 'row')} read from the first {counted(report.read, 'record')}")
    if span := trial.span:
        first, last, busy = span
        share = f", {busy / (last - first):.1%} of that in these rows together" if last > first else ""
        print_line(f"they span {duration(last - first)}{share}")


def _cell(name: str, value: Any, trial: Trial) -> str:
    if value is None:
        return ""
    if name == "dur":
        return duration(value)
    if name == "ts":
        first = min(row["ts"] for row in trial.rows)
        return _date(value) if first > 10**18 else f"{value:,} ns"
    return shortened(escape_controls(str(value)), _CELL)


def _date(ns: int) -> str:
    """A unix time as a date; times of this century have 19 digits."""
    from datetime import datetime, timezone

    whole = datetime.fromtimestamp(ns // 10**9, timezone.utc)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ns % 10**9:09d}"
