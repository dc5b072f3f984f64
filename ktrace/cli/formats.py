"""`ktrace formats`: what ktrace reads and writes; `ktrace schema`: the JSON Schemas of its own format and answers."""

from __future__ import annotations

from importlib import resources

import click

from ktrace.cli._console import print_table, put, put_answer, tell
from ktrace.cli._programs import json_option
from ktrace.tables import escape_controls


@click.command("formats")
@json_option
def command(format_: str) -> None:
    """List the formats that ktrace reads and writes, their usual file names, and where they come from."""
    from ktrace.input.format import all_formats, plugin_failures

    formats = [fmt for fmt in all_formats() if fmt.via or not fmt.closed]
    if format_ == "json":
        listed = [
            {
                **{"name": fmt.name, "title": fmt.title, "reads": bool(fmt.reads), "writes": bool(fmt.writes)},
                **{"patterns": list(fmt.patterns), "origin": fmt.origin},
            }
            for fmt in formats
        ]
        put_answer("formats", {"formats": listed})
    rows = [
        (
            escape_controls(fmt.name),
            "read" if fmt.reads else "",
            "write" if fmt.writes else "",
            escape_controls(fmt.title),
            escape_controls(" ".join(fmt.patterns)),
            escape_controls(fmt.origin),
        )
        for fmt in formats
    ]
    if format_ == "text":
        print_table(("format", "reads", "writes", "what it is", "file names", "from"), rows)
    for failed in plugin_failures():
        tell(f"warning: the format {failed.format} was left out: {escape_controls(failed.reason)}", err=True)


@click.command("schema")
@click.option("--answers", is_flag=True, help="That of what commands print with --format json.")
def schema(answers: bool) -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    name = "answers-1.schema.json" if answers else "ktrace-1.schema.json"
    put(resources.files("ktrace.schema").joinpath(name).read_text("utf-8"))
