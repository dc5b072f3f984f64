"""`ktrace formats`: what ktrace reads and writes; `ktrace schema`: the JSON Schemas of its own format and answers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import print_line, print_table, put_answer, write_stdout
from ktrace.cli._programs import json_option
from ktrace.tables import escape_controls

if TYPE_CHECKING:
    from ktrace.input.format import Format


@click.command("formats")
@click.argument("words", metavar="[WORD]...", nargs=-1)
@json_option
def command(words: tuple[str, ...], format_: str) -> None:
    """List the formats that ktrace reads and writes, and their usual file names; with WORDs, those that match.

    \b
    ktrace formats nsys
    ktrace formats rocm json
    """
    from ktrace.input.format import all_formats, plugin_failures

    every = [fmt for fmt in all_formats() if fmt.via or not fmt.closed]
    formats = [fmt for fmt in every if all(word.casefold() in _text(fmt) for word in words)]
    if format_ == "json":
        listed = [
            {
                **{"name": fmt.name, "title": fmt.title, "reads": bool(fmt.reads), "writes": bool(fmt.writes)},
                **{"patterns": list(fmt.patterns), "origin": fmt.origin},
            }
            for fmt in formats
        ]
        put_answer("formats", {"formats": listed})
    elif formats:
        others = any(not fmt.origin.startswith("ktrace ") for fmt in formats)
        headings = ("format", "reads", "writes", "what it is", *(("from",) if others else ()), "file names")
        rows = [[*map(escape_controls, _cells(fmt, others=others))] for fmt in formats]
        print_table(headings, rows, wrapped=(headings.index("what it is"), len(headings) - 1))
    else:
        _tell_none(words, every)
    for failed in plugin_failures():
        print_line(f"warning: the format {failed.format} was left out: {escape_controls(failed.reason)}", err=True)


def _text(fmt: Format) -> str:
    """The text of a format that words are searched in."""
    return " ".join((fmt.name, fmt.title, *fmt.patterns, fmt.origin)).casefold()


def _cells(fmt: Format, *, others: bool) -> tuple[str, ...]:
    """The row of a format, with where it comes from if there are `others` than ktrace's; the longest text is last."""
    does = "read" if fmt.reads else "", "write" if fmt.writes else ""
    return fmt.name, *does, fmt.title, *((fmt.origin,) if others else ()), _patterns(fmt)


#: So many characters of a format's file names are shown; the first is shown whole.
_WIDTH = 44


def _patterns(fmt: Format) -> str:
    shown = " ".join(fmt.patterns)
    if len(shown) > _WIDTH and len(fmt.patterns) > 1:
        shown = shown[: shown.rfind(" ", 0, _WIDTH + 1)] if " " in shown[: _WIDTH + 1] else fmt.patterns[0]
    more = len(fmt.patterns) - len(shown.split())
    return shown + (f" and {more} more" if more else "")


def _tell_none(words: Sequence[str], formats: Sequence[Format]) -> None:
    """Prints that no format has these words, and those that are spelled alike."""
    from ktrace.naming.alike import near

    alike = [name for word in words for name in near(word, [fmt.name for fmt in formats], 3)]
    meant = f"; did you mean {' or '.join(dict.fromkeys(alike))}?" if alike else ""
    print_line(f"no format matches {escape_controls(' '.join(words))}{meant}", err=True)


@click.command("schema")
@click.option("--answers", is_flag=True, help="The schema of what commands print with --format json.")
def schema(answers: bool) -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    name = "answers-1.schema.json" if answers else "ktrace-1.schema.json"
    write_stdout(resources.files("ktrace.schema").joinpath(name).read_text("utf-8"))
