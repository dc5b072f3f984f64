"""`ktrace share`: a page to send."""

from __future__ import annotations

import click

from ktrace.cli._console import Progress, check_output, print_line, tell_alignment, tell_issues
from ktrace.cli._options import Grouped, inputs_argument, output_of, overwrite_option, selection_options
from ktrace.parallel.startup import import_pyarrow, tune_allocator
from ktrace.pipeline.selection import ReadOptions, Selection
from ktrace.tables import brief, size


@click.command("share", cls=Grouped)
@inputs_argument
@click.option("-o", "output", metavar="OUT.html", help="The page to write.")
@click.option("--redact", is_flag=True, help="Replace names, paths and hosts by tokens.")
@click.option(
    "--key",
    metavar="FILE",
    help="With --redact: the file that says what each token stands for, beside the page by default; its key gives the "
    "same tokens again.",
)
@overwrite_option
@selection_options(ReadOptions, "capture", "repair_clock", "explain")
def command(
    inputs: tuple[str, ...],
    output: str | None,
    redact: bool,
    key: str | None,
    overwrite: bool,
    selection: Selection,
) -> None:
    """Write a page to send: the verdict, an overview, and a part that opens in the Perfetto UI; at most 5 MB.

    With --redact, names, paths and hosts become tokens. Numbers stay, and so do the words of vendors and frameworks,
    such as gemm and cudaLaunchKernel: the figures are those of IN.

    \b
    ktrace share run.json -o run.html
    ktrace share run.json -o run.html --redact         run.key.json says what each token stands for
    ktrace share other.json -o other.html --redact --key run.key.json     the same tokens
    ktrace share big.sqlite -o step.html --step 3      a step of it
    """
    tune_allocator()
    import_pyarrow()
    from ktrace.viewer.share import share

    output = output_of(output, "share", inputs, ".html")
    check_output(output, inputs)
    with Progress(inputs) as progress:
        shared = share(
            inputs, output, redact=redact, key=key, selection=selection, overwrite=overwrite, progress=progress.callback
        )
    tell_issues(shared.report)
    tell_alignment(shared.report)
    part, whole = shared.part[1] - shared.part[0], shared.length
    opens = "all of it" if part >= whole else f"{brief(part)} of its {brief(whole)}"
    print_line(f"{output}, {size(shared.bytes)}: in Perfetto it opens {opens}")
    if shared.key:
        kinds = ", ".join(f"{count:,} {what}" for what, count in sorted(shared.replaced.items())) or "nothing"
        print_line(f"replaced: {kinds}; what each token stands for is in {shared.key}, which is yours alone")
