"""Options that name a part of a trace, for every command that takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ktrace.errors import UsageError

if TYPE_CHECKING:
    from ktrace.pipeline.selection import Selection
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


Callback = Callable[[click.Context, click.Parameter, str | None], tuple[str | int, ...]]


def listed(item: type[str] | type[int]) -> Callback:
    """Takes words or whole numbers with commas between them: `kernel,memcpy`, `0,1`."""

    def items(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str | int, ...]:
        try:
            found = tuple(item(part.strip()) for part in value.split(",")) if value is not None else ()
        except ValueError:
            raise click.BadParameter(f"'{value}' is no list of whole numbers, such as 0,1") from None
        if "" in found:
            raise click.BadParameter(f"'{value}' has an empty item")
        return found

    return items


#: The title of the options in the help, and the parameters under it.
PART = "A part of the trace"

_OPTIONS = (
    click.option("--time", metavar="FROM..TO", help="What touches this time from the start on: 1.5s..2.0s, ..2s, 1s.."),
    click.option("--around", metavar="NAME", help="What happens around each row of this name."),
    click.option("--margin", metavar="TIME", help="With --around: so much before and behind; the default is 1ms."),
    click.option(
        "--step", metavar="N", help="A step of the profiler, or several (3..5), with the work launched in it."
    ),
    click.option("--range", metavar="NAME", help="The ranges (NVTX, annotations) of this name, with that work."),
    click.option(
        "--kind", "kinds", metavar="KIND,...", callback=listed(str), help="Only these kinds: kernel, memcpy, op, ..."
    ),
    click.option(
        "--name", "names", metavar="GLOB", multiple=True, help="Only what is called so: '*gemm*'. May repeat."
    ),
    click.option("--device", "devices", metavar="N,...", callback=listed(int), help="Only what is on these devices."),
    click.option("--stream", "streams", metavar="N,...", callback=listed(int), help="Only what is on these streams."),
    click.option("--rank", "ranks", metavar="N,...", callback=listed(int), help="Only the sources of these ranks."),
    click.option("--min-dur", metavar="TIME", help="Leave out slices that are shorter: 10us."),
    click.option("--only-gpu", is_flag=True, help="Only device work, and what else is on devices."),
    click.option("--drop-args", is_flag=True, help="Leave out the arguments of the source."),
)


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command takes them as `**part`, for `crop_of` and `filter_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_of(part: dict[str, Any]) -> Filter | None:
    """The filter that the options say, None where they say none. Raises UsageError as `Filter` does."""
    from ktrace.stages.select.filter import Filter

    given = {name: value for name, value in part.items() if value and name in Filter.__dataclass_fields__}
    return Filter(**given) if given else None


def crop_of(part: dict[str, Any]) -> Crop | None:
    """The crop that the options say, None where they say none. Raises UsageError as `Crop` does."""
    from ktrace.stages.select.crop import Crop

    given = {name: part[name] for name in Crop.__dataclass_fields__ if part[name] is not None}
    if "margin" in given and "around" not in given:
        raise UsageError("--margin is for --around", remedy="leave it out, or name what to be around")
    return Crop(**given) if given else None


def selection_of(part: dict[str, Any], **options: Any) -> Selection:
    """The selection that the options of a command say. Raises UsageError as `Crop` and `Filter` do."""
    from ktrace.pipeline.selection import Selection

    return Selection(crop=crop_of(part), filter=filter_of(part), **options)


class Grouped(click.Command):
    """A command of which some options stand under a title of their own in the help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, those of `part_options` last."""
        mine = {option.name for option in click.command()(part_options(lambda: None)).params}
        parts: dict[str, list[tuple[str, str]]] = {"Options": [], PART: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                parts[PART if param.name in mine else "Options"].append(record)
        for title, records in parts.items():
            with formatter.section(title):
                formatter.write_dl(records)
