"""How commands tell what was noted, repaired or skipped: on standard error, and with `--report` in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ktrace.errors import UsageError
from ktrace.model.times import time_text
from ktrace.tables.figures import harmless

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.report import Report

#: Letters of a detail that are shown.
_DETAIL = 120

#: Kinds of issue that concern ktrace itself rather than the input.
_LABELS = {"broken-format": "warning"}


@contextmanager
def account_file(path: str | None, others: Iterable[str]) -> Iterator[Callable[[Report | BatchReport], None]]:
    """What writes the account to the file of `--report`, which appears at the end of the block; nothing without one.

    Raises UsageError where it would be one of the `others`: inputs and output of the command.
    """
    if path is None:
        yield lambda account: None
        return
    from ktrace.output.sink import Sink, writing

    if path == "-" or os.path.realpath(path) in map(os.path.realpath, others):
        raise UsageError("--report needs a file of its own", expected="not '-', an input or the output")
    with writing(Sink(path, overwrite=True)) as sink:

        def write(account: Report | BatchReport) -> None:
            text = json.dumps(account.to_dict(), indent=1, ensure_ascii=False) + "\n"
            sink.open().write(text.encode("utf-8", "backslashreplace"))

        yield write


def tell_account(account: Report, output: str) -> None:
    """What there is to say of an output: its issues, its parts, how its sources were aligned, and what was done."""
    tell_issues(account)
    _tell_parts(account)
    _tell_alignment(account)
    click.echo(f"{output}: {account.line()}", err=True)


def tell_issues(account: Report) -> None:
    """A line for each kind of issue, the worst first, with its first places and what was wrong at the first."""
    for issue in sorted(account.issues.values(), key=lambda issue: -issue.severity):
        places = ", ".join(dict.fromkeys(harmless(where) for where, _ in issue.places[:3]))
        more = ", ..." if len(issue.places) > 3 else ""
        what = f"{issue.rows:,} x {issue.kind}" if issue.rows else issue.kind
        detail = next((detail for _, detail in issue.places if detail), "").partition("\n")[0]
        first = f" First: {harmless(detail if issue.kind in _LABELS else detail[:_DETAIL])}" if detail else ""
        label = _LABELS.get(issue.kind, issue.severity.name.lower())
        click.echo(f"{label}: {what} ({places}{more}): {issue.sentence}{first}", err=True)


def _tell_parts(account: Report) -> None:
    """A line for each part of an output that was split: its rows, and from when to when these begin."""
    begin = min((part["start_ns"] for part in account.parts if part["start_ns"] is not None), default=0)
    for part in account.parts:
        times = [time_text(part[name] - begin) for name in ("start_ns", "end_ns") if part[name] is not None]
        when = f", {'..'.join(times)}" if times else ""
        click.echo(f"{part['path']}: {part['rows']:,} rows, {part['bytes']:,} bytes{when}", err=True)


#: Rule of a source -> how its line says it.
_RULES = {
    "reference": "its clock is that of the output",
    "unix": "by unix time",
    "begin": "begins with the first source: nothing relates their clocks",
    "same clock": "its clock is that of another source",
    "as it is": "has no times to align",
    "none": "its times stay",
    "marker": "by the marker",
}


def _tell_alignment(account: Report) -> None:
    """A line for each source: by how much its times moved, by which rule, how well."""
    for said in account.alignment:
        words = [_RULES.get(said["rule"], said["rule"])]
        if "matched" in said:
            words[0] = f"by {said['matched']:,} collectives" + (f" with {said['through']}" if "through" in said else "")
            median, p95 = (time_text(said[f"residual_{name}_ns"]) for name in ("median", "p95"))
            words.append(f"residual {median} median, {p95} p95")
        if "drift_ppm" in said:
            words.append(f"drift {said['drift_ppm']:+.3f} ppm")
        if said.get("outliers"):
            words.append(f"{said['outliers']:,} outliers")
        if "shift_ns" in said:
            words.append(f"with the {_signed(said['shift_ns'])} that it was exported with")
        if "shift_undone_ns" in said:
            words.append(f"the {_signed(said['shift_undone_ns'])} that it was exported with undone")
        if "extra_ns" in said:
            words.append(f"and {_signed(said['extra_ns'])} as asked")
        moved = f"{_signed(said['offset_ns'])}, " if said["offset_ns"] else ""
        click.echo(f"{said['source']}: {moved}{', '.join(words)}", err=True)


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + time_text(ns)
