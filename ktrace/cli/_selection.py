"""Options that select a part of a trace, for every command that accepts a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ktrace.cli._complete import complete_kinds
from ktrace.errors import UsageError

if TYPE_CHECKING:
    from ktrace.pipeline.selection import Selection
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


Callback = Callable[[click.Context, click.Parameter, str | None], tuple[str | int, ...]]


def listed(item: type[str] | type[int]) -> Callback:
    """Returns a callback that parses a comma-separated list: `kernel,memcpy`, `0,1`."""

    def items(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str | int, ...]:
        try:
            found = tuple(item(part.strip()) for part in value.split(",")) if value is not None else ()
        except ValueError:
            raise click.BadParameter(f"'{value}' isn't a list of whole numbers, such as 0,1") from None
        if "" in found:
            raise click.BadParameter(f"'{value}' has an empty item")
        return found

    return items


#: The title of these options in the help.
PART = "A part of the trace"

_OPTIONS = (
    click.option(
        "--time",
        metavar="FROM..TO",
        help="Events overlapping this interval, counted from the start: 1.5s..2.0s, ..2s, 1s..",
    ),
    click.option("--around", metavar="NAME", help="Events around each row with this name."),
    click.option("--margin", metavar="TIME", help="With --around: time before and after each row; the default is 1ms."),
    click.option(
        "--step",
        metavar="N",
        help="A step (3, or ProfilerStep#3), or several (3..5), with what is launched in it.",
    ),
    click.option(
        "--range", metavar="NAME", help="Ranges (NVTX, annotations) with this name: what begins or is launched in them."
    ),
    click.option("--overlapping", is_flag=True, help="With --step or --range: also what overlaps them."),
    click.option(
        "--kind",
        "kinds",
        metavar="KIND,...",
        shell_complete=complete_kinds,
        callback=listed(str),
        help="Only rows of these kinds: kernel, memcpy, op, ...",
    ),
    click.option(
        "--name", "names", metavar="GLOB", multiple=True, help="Only events whose name matches: '*gemm*'. Repeatable."
    ),
    click.option("--device", "devices", metavar="N,...", callback=listed(int), help="Only rows on these devices."),
    click.option("--stream", "streams", metavar="N,...", callback=listed(int), help="Only rows on these streams."),
    click.option("--rank", "ranks", metavar="N,...", callback=listed(int), help="Only the sources of these ranks."),
    click.option("--min-dur", metavar="TIME", help="Leave out shorter slices: 10us."),
    click.option("--only-gpu", is_flag=True, help="Only device work and other rows on devices."),
    click.option("--drop-args", is_flag=True, help="Leave out the source's arguments."),
)


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command receives them as `**part` and passes them to `crop_of` and `filter_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_of(part: dict[str, Any]) -> Filter | None:
    """Returns the filter that the options define, None if they define none. Raises UsageError as `Filter` does."""
    from ktrace.stages.select.filter import Filter

    given = {name: value for name, value in part.items() if value and name in Filter.__dataclass_fields__}
    return Filter(**given) if given else None


def crop_of(part: dict[str, Any]) -> Crop | None:
    """Returns the crop that the options define, None if they define none. Raises UsageError as `Crop` does."""
    from ktrace.stages.select.crop import Crop

    given = {name: part[name] for name in Crop.__dataclass_fields__ if part[name] not in (None, False)}
    if "margin" in given and "around" not in given:
        raise UsageError("--margin needs --around", remedy="leave it out, or add --around NAME")
    return Crop(**given) if given else None


def selection_of(part: dict[str, Any], **options: Any) -> Selection:
    """The selection that the options of a command say. Raises UsageError as `Crop` and `Filter` do."""
    from ktrace.pipeline.selection import Selection

    if all(value in (None, (), False) for value in part.values()):  # nothing to import for
        return Selection(**options)
    return Selection(crop=crop_of(part), filter=filter_of(part), **options)


class Grouped(click.Command):
    """A command whose help lists the options of `part_options` under a separate title."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, with those of `part_options` last."""
        mine = {option.name for option in click.command()(part_options(lambda: None)).params}
        parts: dict[str, list[tuple[str, str]]] = {"Options": [], PART: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                parts[PART if param.name in mine else "Options"].append(record)
        for title, records in parts.items():
            with formatter.section(title):
                formatter.write_dl(records)
