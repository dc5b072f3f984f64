"""Options that several commands have, each written once, so that they are called and explained alike."""

from __future__ import annotations

import click

from ktrace.cli._complete import complete_input_format, complete_output_format

inputs_argument = click.argument(
    "inputs", metavar="IN...", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False)
)

output_option = click.option(
    "-o", "--output", metavar="OUT", required=True, help="Where to write; '-' is standard output."
)

#: Of one input, or of several: all of these are of that format.
from_option = click.option(
    "--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="What the input is."
)
from_all_option = click.option(
    "--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="What the inputs are."
)

to_option = click.option(
    "--to", metavar="FORMAT", shell_complete=complete_output_format, help="What to write, whatever OUT is called."
)

#: None where it isn't given, "" without rules of one's own; `classify_of` says what the library takes.
classify_option = click.option(
    "--classify",
    metavar="[RULES]",
    is_flag=False,
    flag_value="",
    help="Say of device work operation, library, precision, layer and a short name; by rules of your own first.",
)

split_by_option = click.option("--split-by", metavar="WAY", help="Write numbered parts: time=10s, size=500MB or step.")

gpu_option = click.option(
    "--gpu",
    type=click.Choice(["auto", "stages", "slices"]),
    default="auto",
    help="How a Perfetto trace shows device work: as stages of a GPU (viewers from v55 on) or as slices (any viewer).",
)

strict_option = click.option(
    "--strict", is_flag=True, help="Fail where anything has to be repaired, skipped or cut off."
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an output that exists.")

jobs_option = click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Processes that may work; the default is the cores."
)

rules_option = click.option(
    "--rules", metavar="RULES", help="A file of rules for operations that come before those of ktrace."
)


def classify_of(value: str | None) -> bool | str:
    """What `--classify` says."""
    return value or value is not None
