"""Completion of values in shells: formats, kinds, groupings, alignments, ways to split, folders, explanations."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def complete_input_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the names of the formats that ktrace reads."""
    return _complete(incomplete, reads=True)


def complete_output_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the names of the formats that ktrace writes."""
    return _complete(incomplete, reads=False)


def complete_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the kinds of rows; of a list the last item is completed."""
    from ktrace.stages.select.filter import KINDS

    return _listed(incomplete, KINDS)


def complete_by(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what tables can be grouped by; of a list the last item is completed."""
    from ktrace.analysis.diff.matching import COMPARED
    from ktrace.analysis.summary.questions import QUESTIONS
    from ktrace.analysis.work.groups import BY

    return _listed(incomplete, [*BY, *QUESTIONS] if ctx.info_name == "summary" else COMPARED)


def complete_alignment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the rules of alignment."""
    from ktrace.stages.align.wanted import RULES

    return _listed(incomplete, RULES)


def complete_split(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the ways to split an output."""
    return _listed(incomplete, ("time=", "size=", "step"))


def complete_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what the folders of a dataset can be by; of a list the last item is completed."""
    from ktrace.input.places import FOLDERS

    return _listed(incomplete, FOLDERS)


def complete_explanation(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what can be explained; of a list the last item is completed."""
    from ktrace.pipeline.explain import EXPLANATIONS

    return _listed(incomplete, EXPLANATIONS)


def _listed(incomplete: str, values: Iterable[str]) -> list[CompletionItem]:
    """The values that complete the last item of a list, with the items before it; none of these again."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [CompletionItem(before + comma + value) for value in values if value.startswith(last) and value not in given]


def _complete(incomplete: str, *, reads: bool) -> list[CompletionItem]:
    from ktrace.input.format import all_formats

    able = [fmt for fmt in all_formats() if (fmt.reads if reads else fmt.writes) and (fmt.via or not fmt.closed)]
    return [CompletionItem(fmt.name, help=fmt.title) for fmt in able if fmt.name.startswith(incomplete)]
