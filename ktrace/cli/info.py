"""`ktrace info`: what an input is and what is in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ktrace.cli._arrow import import_pyarrow
from ktrace.cli._complete import complete_input_format
from ktrace.cli._console import heading, print_table
from ktrace.rendering.figures import duration

if TYPE_CHECKING:
    from ktrace.info import Info


@click.command("info")
@click.argument("path", metavar="IN", type=click.Path(allow_dash=True, readable=False))
@click.option("--from", "from_", metavar="FORMAT", shell_complete=complete_input_format, help="What the input is.")
def command(path: str, from_: str | None) -> None:
    """Say what IN is and why, what is in it, its devices and time span, its heaviest kernels."""
    import_pyarrow()
    from ktrace.info import inspect

    info = inspect(path, format=from_)
    heading(f"{path}: {', '.join(dict.fromkeys(one['format'] for one in info.report.inputs))}")
    _tell_why(info, from_)
    for entry in info.catalog.of("source"):
        for fact in ("tool", "version", "model", "run", "rank"):
            if fact in entry.facts:
                click.echo(f"  {fact}: {entry.facts[fact]}")
    for device in info.devices:
        facts = ", ".join(f"{name} {_plain(value)}" for name, value in device.facts.items())
        click.echo(
            f"  device {device.key.get('device', '')}: {device.name or 'unnamed'}" + (f" ({facts})" if facts else "")
        )
    if info.span:
        click.echo(f"  span: {duration(info.span[1] - info.span[0])}")
    if info.tables:
        click.echo(f"  tables: {info.tables:,}")
    click.echo(f"  {info.report.line()}")
    heading("contents")
    rows = [(record, kind, f"{count:,}") for (record, kind), count in sorted(info.kinds.items())]
    print_table(("record", "kind", "rows"), rows, right=[2])
    for title, lines in info.about.items():
        heading(title)
        for line in lines:
            click.echo(f"  {line}")
    if top := info.top():
        heading("heaviest device work")
        work = [(duration(total), f"{times:,}", _short(name)) for name, times, total in top]
        print_table(("time", "count", "name"), work, right=[0, 1])


def _tell_why(info: Info, from_: str | None) -> None:
    """Why the input is taken for what it is; of a folder or a pattern the traces in it."""
    inputs = info.report.inputs
    chosen = inputs[0]["format"]
    reasons = {match.format: match.reason for match in info.matches}
    if chosen in reasons:
        click.echo(f"  because it {reasons[chosen]}")
    elif from_:
        click.echo("  because --from says so")
    if len(inputs) > 1:
        shown = ", ".join(one["source"] for one in inputs[:5])
        click.echo(f"  {len(inputs):,} traces: {shown}{', ...' if len(inputs) > 5 else ''}")
    for match in info.matches:
        if match.format != chosen and match.score > 0:
            click.echo(f"  could also be {match.format}: it {match.reason}")


def _plain(value: object) -> str:
    """A fact as it is written; lists and objects as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def _short(name: str, width: int = 100) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
