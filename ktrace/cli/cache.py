"""`ktrace cache`: what is kept of inputs that were viewed."""

from __future__ import annotations

import click

from ktrace.cli._console import print_line, print_table, put_answer
from ktrace.cli._programs import json_option


@click.command("cache")
@json_option
@click.option("--clear", is_flag=True, help="Remove all of it.")
def command(format_: str, clear: bool) -> None:
    """Show or clear the cache of inputs that were viewed, so that they open at once the next time.

    KTRACE_CACHE sets another folder. Entries that weren't opened for 30 days are removed; above 8 GB, those that were
    opened least recently go first.

    \b
    ktrace cache
    ktrace cache --clear
    """
    from datetime import datetime, timezone

    from ktrace.analysis.questions.overview import cache
    from ktrace.report import counted
    from ktrace.tables import escape_controls, size

    folder = cache.cache_folder()
    shown = cache.clear(folder) if clear else cache.entries(folder)
    used = [datetime.fromtimestamp(one.used, timezone.utc) for one in shown]
    if format_ == "json":
        traces = [
            {"inputs": one.inputs, "size_bytes": one.size, "opened": when.isoformat(timespec="seconds")}
            for one, when in zip(shown, used, strict=True)
        ]
        put_answer("cache", {"folder": str(folder) if folder else None, "cleared": clear, "traces": traces})
        return
    if folder is None:
        print_line(f"the cache is off: {cache.FOLDER} is {cache.OFF}")
        return
    if shown:
        names = [escape_controls(", ".join(one.inputs)) or "(damaged, or of another version)" for one in shown]
        times = [f"{when.astimezone():%Y-%m-%d %H:%M}" for when in used]
        sizes = [size(one.size) for one in shown]
        print_table(("input", "size", "last opened"), list(zip(names, sizes, times, strict=True)))
    kept, total = counted(len(shown), "trace"), size(sum(one.size for one in shown))
    print_line(f"{kept}, {total}, {'removed from' if clear else 'in'} {escape_controls(str(folder))}")
