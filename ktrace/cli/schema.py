"""`ktrace schema`: the JSON Schema of the canonical model."""

from __future__ import annotations

from importlib import resources

import click

from ktrace.cli._console import put


@click.command("schema")
def command() -> None:
    """Print the JSON Schema (2020-12) of the canonical model."""
    put(resources.files("ktrace.schema").joinpath("ktrace-1.schema.json").read_text("utf-8"))
