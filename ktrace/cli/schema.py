"""`ktrace schema`: the JSON Schema of the canonical model."""

from __future__ import annotations

from importlib import resources

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    click.echo(resources.files("ktrace.schema").joinpath("ktrace-1.schema.json").read_text("utf-8"), nl=False)
