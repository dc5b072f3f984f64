"""`ktrace formats`: what ktrace reads and writes."""

from __future__ import annotations

import click

from ktrace.cli._console import print_table, tell
from ktrace.tables.figures import harmless


@click.command("formats")
def command() -> None:
    """List the formats that ktrace reads and writes, their usual file names, and where they come from."""
    from ktrace.input.format import all_formats, package_of, plugin_failures

    rows = [
        (
            harmless(fmt.name),
            "read" if fmt.reads else "",
            "write" if fmt.writes else "",
            harmless(fmt.title),
            harmless(" ".join(fmt.patterns)),
            harmless(package_of(fmt.name)),
        )
        for fmt in all_formats()
        if fmt.via or not fmt.closed
    ]
    print_table(("format", "reads", "writes", "what it is", "file names", "from"), rows)
    for failed in plugin_failures():
        tell(f"warning: the format {failed.format} was left out: {harmless(failed.reason)}", err=True)
