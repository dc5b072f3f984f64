"""`ktrace formats`: what ktrace reads and writes; `ktrace schema`: the JSON Schemas of its own format and answers."""

from __future__ import annotations

import re
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
    formats = _matching(words, every)
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


#: Names of devices, of their interfaces and of databases -> the word for them among the formats.
_HARDWARE = (
    (r"(mi|gfx)\d+\w*|instinct|radeon|rdna\d?|cdna\d?|hip", "amd"),
    (r"[abhlvpt]\d{1,3}0\w?|gb?\d00|[gr]tx\w*|geforce|tesla|hopper|blackwell|ampere|cuda|cupti", "nvidia"),
    (r"wgpu|dawn|browser|chrome", "webgpu"),
    (r"m[1-9]|mps|mac|macos|iphone", "apple"),
    (r"tpu\w*", "jax"),
    (r"trainium\d?|trn\d|inferentia\d?|inf\d", "neuron"),
    (r"910\w*|910b|atlas", "ascend"),
    (r"arc|xe|pvc|ponte|sycl|oneapi|dpc\+\+|level-?zero", "intel"),
    (r"hexagon|snapdragon|adreno", "qualcomm"),
    (r"sqlite3?|database", "sqlite"),
)


def _matching(words: Sequence[str], formats: Sequence[Format]) -> list[Format]:
    """The formats with all the words, at the start of one of theirs or else within it; devices by their maker."""
    sought = [
        next((maker for device, maker in _HARDWARE if re.fullmatch(device, word)), word)
        for word in map(str.casefold, words)
    ]
    texts = [(fmt, _text(fmt)) for fmt in formats]
    for start in (r"(?<![a-z0-9])", ""):
        patterns = [re.compile(start + re.escape(word)) for word in sought]
        if matching := [fmt for fmt, text in texts if all(pattern.search(text) for pattern in patterns)]:
            return matching
    return []


def _text(fmt: Format) -> str:
    """The text of a format that words are searched in: what it says of itself, and the group in which docs list it."""
    return " ".join((fmt.name, fmt.title, *fmt.patterns, fmt.origin, fmt.group)).casefold()


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
    meant = (
        f"; did you mean {' or '.join(dict.fromkeys(alike))}?"
        if alike
        else "; tables and logs of any tool are read, too: ktrace FILE"
    )
    print_line(f"no format matches {escape_controls(' '.join(words))}{meant}", err=True)


@click.command("schema")
@click.option("--answers", is_flag=True, help="The schema of what commands print with --format json.")
def schema(answers: bool) -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    name = "answers-1.schema.json" if answers else "ktrace-1.schema.json"
    write_stdout(resources.files("ktrace.schema").joinpath(name).read_text("utf-8"))
