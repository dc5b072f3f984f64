"""Options that several commands share, each defined once, so that names and help texts agree."""

from __future__ import annotations

import click

from ktrace.cli._complete import complete_explanation, complete_input_format, complete_output_format, complete_split
from ktrace.cli._selection import listed

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
