"""`ktrace merge`: the ranks of a run, or several tools' views of it, in one timeline."""

from __future__ import annotations

from typing import Any

import click

from ktrace.cli._options import Grouped, complete_alignment
from ktrace.cli.convert import writes_output
from ktrace.errors import UsageError
from ktrace.pipeline.selection import ReadOptions
from ktrace.report import Report


class Merging(Grouped):
    """The merge command, which accepts `--align marker NAME` as two words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        rest = iter(args)
        for word in rest:
            two = joined[-1:] == ["--align"] and word == "marker"
            joined.append(f"marker:{next(rest, '')}" if two else word)
        return super().parse_args(ctx, joined)


@click.command("merge", cls=Merging)
@writes_output(
    "merge",
    "merge",
    [ReadOptions, "capture", "repair_clock", "explain", "split_by", "budget"],
    click.option(
        "--align",
        metavar="RULE",
        shell_complete=complete_alignment,
        default="auto",
        help="How clocks are aligned: auto, unix, collective, marker NAME, none.",
    ),
    click.option(
        "--offset",
        "offsets",
        metavar="FILE=TIME",
        multiple=True,
        help="Shift all times of an input, such as by +1.5ms. Repeatable.",
    ),
    click.option(
        "--keep-shift", is_flag=True, help="Keep a manual shift of the times made at export (nsys export --ts-shift)."
    ),
)
def command(offsets: tuple[str, ...], **given: Any) -> Report:
    """Merge inputs of any formats into one timeline, with all times in the clock of the first.

    Inputs are files, patterns and folders, such as PyTorch with nsys, or a browser log with a Metal trace. A part of
    the trace is selected after the clocks are aligned.

    \b
    ktrace merge rank*.json.gz -o run.perfetto            by unix time, if the clocks provide it
    ktrace merge rank*.json.gz -o run.perfetto --align collective    by collectives, which end together
    ktrace merge a.json b.sqlite -o run.perfetto --align marker 'train step 3'
    ktrace merge a.json b.json -o run.perfetto --offset b.json=+1.5ms
    ktrace merge rank*.json.gz -o run.tar                 one .perfetto per rank, merged by the viewer (v58)
    ktrace merge rank*.json.gz -o step3.perfetto --step 3
    """
    from ktrace.pipeline.convert import merge

    return merge(offsets=_offsets(offsets), **given)


def _offsets(given: tuple[str, ...]) -> dict[str, int | str]:
    """Returns the FILE=TIME options as a mapping; a name may contain '='. Raises UsageError."""
    offsets: dict[str, int | str] = {}
    for text in given:
        name, is_there, time = text.rpartition("=")
        if not is_there or not name:
            raise UsageError(f"'{text}' isn't an offset", expected="FILE=TIME, such as rank1.json.gz=+1.5ms")
        if name in offsets:
            raise UsageError(f"'{name}' has two offsets", remedy="add them up")
        offsets[name] = time
    return offsets
