"""Completion of format names in shells."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def complete_input_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the names of the formats that ktrace reads."""
    return _complete(incomplete, reads=True)


def complete_output_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the names of the formats that ktrace writes."""
    return _complete(incomplete, reads=False)


def _complete(incomplete: str, *, reads: bool) -> list[CompletionItem]:
    from ktrace.input.format import all_formats

    able = [fmt for fmt in all_formats() if (fmt.reads if reads else fmt.writes) and (fmt.via or not fmt.closed)]
    return [CompletionItem(fmt.name, help=fmt.title) for fmt in able if fmt.name.startswith(incomplete)]
