"""Options that several commands share, each defined once, so that names and help texts agree, and their completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ktrace.errors import UsageError

if TYPE_CHECKING:
    from ktrace.pipeline.selection import Selection
    from ktrace.stages.select.crop_bounds import Crop
    from ktrace.stages.select.filter import Filter


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
    from ktrace.analysis.summary import QUESTIONS
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
    from ktrace.input.dataset_manifest import FOLDERS

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
    from ktrace.stages.select.crop_bounds import Crop

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


inputs_argument = click.argument(
    "inputs", metavar="IN...", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False)
)

output_option = click.option(
    "-o", "--output", metavar="OUT", required=True, help="Where to write; '-' is standard output."
)

#: For one input, and for several that all have this format.
from_option = click.option(
    "--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="Format of the input."
)
from_all_option = click.option(
    "--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="Format of the inputs."
)


def _joined(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Returns the pairs of all `--map` as one text, None if there are none."""
    return ",".join(values) if values else None


#: A mapping of columns, which the commands receive as `map_` and pass on as `map` of a `Selection`.
map_option = click.option(
    "--map",
    "map_",
    metavar="FIELD=COLUMN,...",
    multiple=True,
    callback=_joined,
    help="Read a table (CSV, TSV, JSON Lines) with these columns: name=Kernel,start=t0:us,dur=dt:us; or a TOML file.",
)


def _under_limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
    """Puts the limits in force until the command ends. Raises UsageError."""
    if values:
        from ktrace.input.limits import in_force

        ctx.with_resource(in_force(",".join(values)))


#: Limits other than the defaults; they are in force, and no command receives them.
limits_option = click.option(
    "--limits",
    metavar="NAME=SIZE,...",
    multiple=True,
    expose_value=False,
    callback=_under_limits,
    help="Allow more, or less, in an input: line=1GiB, value=2GiB, unpacked=4GiB, ratio=none, depth=8.",
)

to_option = click.option(
    "--to",
    metavar="FORMAT",
    shell_complete=complete_output_format,
    help="Format to write; by default the name of OUT decides.",
)

classify_option = click.option(
    "--classify", is_flag=True, help="Label device work with operation, library, precision, layer and short name."
)

explain_option = click.option(
    "--explain",
    metavar="WHAT,...",
    callback=listed(str),
    shell_complete=complete_explanation,
    help="Add what explains the trace, as slices of its own: idle (the gaps of devices by cause), critical-path.",
)

split_by_option = click.option(
    "--split-by",
    metavar="WAY",
    shell_complete=complete_split,
    help="Write numbered parts: time=10s, size=500MB or step.",
)

gpu_option = click.option(
    "--gpu",
    type=click.Choice(["auto", "stages", "slices"]),
    default="auto",
    help="How a Perfetto trace shows device work: as stages of a GPU (viewers from v55 on) or as slices (any viewer).",
)

strict_option = click.option(
    "--strict", is_flag=True, help="Fail if anything has to be repaired or skipped, or if the input is cut off."
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an existing output.")

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Number of processes; the default is the number of cores."
)

rules_option = click.option(
    "--rules", metavar="FILE", help="Label device work by your own rules first, from this file."
)
