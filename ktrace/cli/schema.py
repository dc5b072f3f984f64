"""`ktrace schema`: the JSON Schemas of the canonical model, and of answers to programs."""

from __future__ import annotations

from importlib import resources

import click

from ktrace.cli._console import put


@click.command("schema")
@click.option("--answers", is_flag=True, help="That of what commands print with --format json.")
def command(answers: bool) -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    name = "answers-1.schema.json" if answers else "ktrace-1.schema.json"
    put(resources.files("ktrace.schema").joinpath(name).read_text("utf-8"))
