"""`ktrace formats`: what ktrace reads and writes."""

from __future__ import annotations

import click

from ktrace.cli._console import print_table
from ktrace.tables.figures import harmless


@click.command("formats")
def command() -> None:
    """List the formats that ktrace reads and writes, with their usual file names."""
    from ktrace.input.format import all_formats, plugin_failures

    rows = [
        (fmt.name, "read" if fmt.reads else "", "write" if fmt.writes else "", fmt.title, " ".join(fmt.patterns))
        for fmt in all_formats()
        if fmt.via or not fmt.closed
    ]
    print_table(("format", "reads", "writes", "what it is", "file names"), rows)
    for failed in plugin_failures():
        click.echo(f"warning: the format {failed.format} was left out: {harmless(failed.reason)}", err=True)
