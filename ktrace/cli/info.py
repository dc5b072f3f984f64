"""`ktrace info`: what an input is and what it contains."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import (
    colour,
    heading,
    print_line,
    print_table,
    put_answer,
    tell_cut,
    tell_issues,
    width,
    write_stdout,
)
from ktrace.cli._options import selection_options
from ktrace.cli._programs import json_option
from ktrace.errors import UsageError
from ktrace.parallel.startup import import_pyarrow
from ktrace.pipeline.selection import Selection
from ktrace.tables import Cell, Column, Table, duration, escape_controls, size
from ktrace.tables.text import as_text

if TYPE_CHECKING:
    from ktrace.model.catalog import Entry
    from ktrace.pipeline.info import Info

#: Facts of a source that are shown.
_FACTS = ("tool", "version", "model", "run", "rank")

#: How many sources, devices and figures are shown.
_SOURCES, _NUMBERS, _FIGURES = 16, 16, 20

#: What stands for a time that the input doesn't state.
UNKNOWN = "unknown"

#: Facts that are bytes, from so many on.
_BYTES, _FEW_BYTES = (
    re.compile(r"(?:memory|total_?global_?mem|vram|mem_?size)(?:_bytes|_size)?", re.IGNORECASE),
    1 << 20,
)

#: A fact with more members than this is shown as their number.
_MEMBERS = 12


@click.command("info")
@click.argument("paths", metavar="IN", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False))
@json_option
@selection_options("from_", "map", "limits")
def command(paths: tuple[str, ...], format_: str, selection: Selection) -> None:
    """Show the format of IN and how it was detected, its contents, devices, time span and top kernels."""
    import_pyarrow()
    from ktrace.analysis.questions.checks import PREFIX, sentence
    from ktrace.analysis.work.stated import stated_table
    from ktrace.pipeline.info import inspect

    path, *others = paths
    if others:
        raise UsageError(
            f"{len(paths):,} inputs are named",
            expected="one: a file, a folder, or a pattern in quotes, such as 'rank*.json.gz'",
            remedy="ktrace summary IN... takes several",
        )
    info = inspect(path, from_=selection.from_, map=selection.map)
    if format_ == "json":
        put_answer("info", info.to_dict())
        tell_issues(info.report)
        return
    heading(f"{path}: {', '.join(dict.fromkeys(one['format'] for one in info.report.inputs))}")
    _tell_why(info, selection)
    _tell_sources(info)
    if info.span:
        print_line(f"  span: {duration(info.span[1] - info.span[0])}")
    if info.tables:
        print_line(f"  tables: {info.tables:,}")
    print_line(f"  {info.report.line()}")
    if info.report.bytes.skipped:
        print_line(f"  {escape_controls(info.report.bytes.line())}")
    kinds = [(record, kind, f"{count:,}") for (record, kind), count in sorted(info.kinds.items())]
    heading("contents" if kinds else "no contents")
    if kinds:
        print_table(("record", "kind", "rows"), kinds, right=[2])
    for title, lines in info.about.items():
        heading(title)
        for line in lines:
            print_line(f"  {escape_controls(line)}")
    if info.stated:
        write_stdout(as_text([stated_table(info.stated, _FIGURES)], width=width(), colour=colour()))
    tell_cut(info.report)
    if info.checks:
        heading("failed checks")
        for one in info.checks:
            print_line(f"  {one.code.removeprefix(PREFIX)}: {escape_controls(sentence(one))}")
    if top := info.top():
        columns = (Column("time", "ns"), Column("count", "count"), Column("name"))
        work: list[tuple[Cell, ...]] = [(total or UNKNOWN, times, name) for name, times, total in top]
        write_stdout(as_text([Table("heaviest", "top device work", columns, work)], width=width(), colour=colour()))


def _tell_why(info: Info, selection: Selection) -> None:
    """Prints why the input was read as this format, and the traces of a folder or pattern."""
    inputs = info.report.inputs
    chosen = inputs[0]["format"]
    reasons = {match.format: match.reason for match in info.matches}
    if selection.map:
        print_line("  because --map maps its columns")
    elif chosen in reasons:
        print_line(f"  because it {reasons[chosen]}")
    elif selection.from_:
        print_line("  because --from names it")
    if len(inputs) > 1:
        shown = ", ".join(one["source"] for one in inputs[:5])
        print_line(f"  {len(inputs):,} traces: {shown}{', ...' if len(inputs) > 5 else ''}")
    for match in info.matches:
        if match.format != chosen and match.score > 0:
            print_line(f"  could also be {match.format}: it {match.reason}")
    noted = info.report.issues.get("broken-format")
    failures = dict(noted.places) if noted else {}
    failures |= {match.format: match.reason for match in info.matches if match.failed}
    for name, reason in failures.items():
        print_line(f"warning: the format {name} couldn't be probed: {escape_controls(reason)}", err=True)


def _tell_sources(info: Info) -> None:
    """Prints the facts and devices of each source; several sources are listed under their names."""
    devices: defaultdict[str, list[Entry]] = defaultdict(list)
    for device in info.devices:
        devices[device.key.get("source", "")].append(device)
    hosts = {entry.key.get("source"): entry.name for entry in info.catalog.of("host") if entry.name}
    facts = {entry.key.get("source", ""): entry.facts for entry in info.catalog.of("source")}
    sources = list(dict.fromkeys([*facts, *devices]))
    for source in sources[:_SOURCES]:
        shown = {fact: _plain(facts[source][fact]) for fact in _FACTS if fact in facts.get(source, {})}
        lines = _device_lines(devices[source])
        if len(sources) == 1:
            lines = [*(f"{fact}: {value}" for fact, value in shown.items()), *lines]
        else:
            shown |= {"host": escape_controls(hosts[source])} if source in hosts else {}
            words = ", ".join(f"{fact} {value}" for fact, value in shown.items())
            print_line(f"  {escape_controls(source)}" + (f": {words}" if words else ""))
            lines = [f"  {line}" for line in lines]
        for line in lines:
            print_line(f"  {line}")
    if len(sources) > _SOURCES:
        print_line(f"  ... and {len(sources) - _SOURCES:,} more sources")


def _device_lines(devices: list[Entry]) -> list[str]:
    """Returns a line for each group of devices with the same facts: `devices 0, 1: NVIDIA H100 (api cuda, ...)`.

    A number behind the name, as in `GPU 3`, tells no devices apart: theirs does.
    """
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for device in devices:
        facts = ", ".join(f"{escape_controls(name)} {_fact(name, value)}" for name, value in device.facts.items())
        host, number = device.key.get("host"), str(device.key.get("device", ""))
        name = escape_controls(device.name or "unnamed").removesuffix(f" {number}")
        of = f" of {escape_controls(host)}" if host else ""
        alike[of, name + (f" ({facts})" if facts else "")].append(number)
    return [
        f"device{'s' if len(numbers) > 1 else ''} {_numbers(numbers)}{of}: {what}"
        for (of, what), numbers in list(alike.items())[:_NUMBERS]
    ]


def _numbers(numbers: list[str]) -> str:
    """Returns the numbers of devices as text: `0, 2`, `0 to 7`."""
    if len(numbers) > 2 and numbers == [str(int(numbers[0]) + place) for place in range(len(numbers))]:
        return f"{numbers[0]} to {numbers[-1]}"
    more = f" and {len(numbers) - _NUMBERS:,} more" if len(numbers) > _NUMBERS else ""
    return ", ".join(numbers[:_NUMBERS]) + more


def _fact(name: str, value: object) -> str:
    """Returns a fact of a device as text: bytes with their unit."""
    if type(value) is int and value >= _FEW_BYTES and _BYTES.fullmatch(name):
        return size(value)
    return _plain(value)


def _plain(value: object) -> str:
    """Returns a fact as text: lists and objects as JSON, a large object as its number of members."""
    if isinstance(value, dict) and len(value) > _MEMBERS:
        return f"({len(value):,})"
    return escape_controls(json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value))
