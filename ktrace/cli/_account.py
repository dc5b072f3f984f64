"""How commands report what was noted, repaired or skipped, on standard error and with `--report` in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.cli._console import tell
from ktrace.errors import UsageError
from ktrace.model.times import time_text
from ktrace.tables.figures import harmless

if TYPE_CHECKING:
    from ktrace.fleet.batch import BatchReport
    from ktrace.report import Report

#: Characters of a detail that are shown.
_DETAIL = 120

#: Kinds of issue that users must see although the exit code is 0: they make the result doubtful.
_LABELS = {"broken-format": "warning", "cut": "warning", "residual-large": "warning"}


@contextmanager
def account_file(path: str | None, others: Iterable[str]) -> Iterator[Callable[[Report | BatchReport], None]]:
    """Yields a function that writes the account to the file of `--report`; without `--report` it does nothing.

    The file appears at the end of the block; a device or pipe gets the account at once. The function raises OutputError
    if the account can't be written. Raises UsageError if the file is one of the `others`, the inputs and the
    output of the command.
    """
    if path is None:
        yield lambda account: None
        return
    from ktrace.output.sink import Sink, disk_errors, writing

    if path == "-" or os.path.realpath(path) in map(os.path.realpath, others):
        raise UsageError("--report needs a separate file", expected="a path other than '-', the inputs and the output")
    with writing(Sink(path, overwrite=True)) as sink:

        def write(account: Report | BatchReport) -> None:
            text = json.dumps(account.to_dict(), indent=1, ensure_ascii=False) + "\n"
            with disk_errors(path):
                sink.open().write(text.encode("utf-8", "backslashreplace"))
                sink.pass_on()

        yield write


def tell_account(account: Report, output: str) -> None:
    """Prints the issues of an output, its parts, how its sources were aligned, and the totals."""
    tell_issues(account)
    _tell_parts(account)
    tell_alignment(account)
    tell(f"{output}: {account.line()}", err=True)


def tell_issues(account: Report) -> None:
    """Prints a line for each kind of issue, the worst first, with its first places and the first detail."""
    for issue in sorted(account.issues.values(), key=lambda issue: -issue.severity):
        places = ", ".join(dict.fromkeys(harmless(where) for where, _ in issue.places[:3]))
        more = ", ..." if len(issue.places) > 3 else ""
        what = f"{issue.rows:,} x {issue.kind}" if issue.rows else issue.kind
        detail = next((detail for _, detail in issue.places if detail), "").partition("\n")[0]
        first = f" First: {harmless(detail if issue.kind in _LABELS else detail[:_DETAIL])}" if detail else ""
        label = _LABELS.get(issue.kind, issue.severity.name.lower())
        tell(f"{label}: {what} ({places}{more}): {issue.sentence}{first}", err=True)


def tell_cut(account: Report) -> None:
    """Prints a warning if an input is cut off, for commands that print no other issues."""
    if issue := account.issues.get("cut"):
        where, detail = issue.places[0]
        tell(f"warning: {issue.sentence} ({harmless(where)}: {harmless(detail[:_DETAIL])})", err=True)


def _tell_parts(account: Report) -> None:
    """Prints a line for each part of a split output: its rows, its size, and the range of their begin times."""
    begin = min((part["start_ns"] for part in account.parts if part["start_ns"] is not None), default=0)
    for part in account.parts:
        times = [time_text(part[name] - begin) for name in ("start_ns", "end_ns") if part[name] is not None]
        when = f", {'..'.join(times)}" if times else ""
        tell(f"{part['path']}: {part['rows']:,} rows, {part['bytes']:,} bytes{when}", err=True)


#: Rule of a source -> the words of its line.
_RULES = {
    "reference": "reference clock",
    "unix": "by unix time",
    "begin": "begins with the first source, since nothing relates their clocks",
    "same clock": "same clock as another source",
    "as it is": "no times to align",
    "none": "times unchanged",
    "marker": "by the marker",
}


def tell_alignment(account: Report) -> None:
    """Prints a line for each source: by how much its times moved, by which rule, and the residual."""
    for entry in account.alignment:
        words = [_RULES.get(entry["rule"], entry["rule"])]
        if "matched" in entry:
            words[0] = f"by {entry['matched']:,} collectives" + (
                f" with {entry['through']}" if "through" in entry else ""
            )
            median, p95 = (time_text(entry[f"residual_{name}_ns"]) for name in ("median", "p95"))
            words.append(f"residual {median} median, {p95} p95")
        if "drift_ppm" in entry:
            words.append(f"drift {entry['drift_ppm']:+.3f} ppm")
        if entry.get("outliers"):
            words.append(f"{entry['outliers']:,} outliers")
        if "shift_ns" in entry:
            words.append(f"keeping the shift of {_signed(entry['shift_ns'])} made at export")
        if "shift_undone_ns" in entry:
            words.append(f"undoing the shift of {_signed(entry['shift_undone_ns'])} made at export")
        if "extra_ns" in entry:
            words.append(f"plus {_signed(entry['extra_ns'])} from --offset")
        moved = f"{_signed(entry['offset_ns'])}, " if entry["offset_ns"] else ""
        tell(f"{entry['source']}: {moved}{', '.join(words)}", err=True)


def _signed(ns: int) -> str:
    return ("+" if ns > 0 else "") + time_text(ns)


def tell_labels(account: Report, output: str) -> None:
    """Prints how to get operation, library and precision, if the output is a Parquet file with kernels that lack them.

    It looks at the first row group.
    """
    path = Path(output)
    if not path.is_file() or any(ledger.stage == "classify" for ledger in account.stages):
        return
    with path.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            return
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    if not {"kind", "operation"} <= set(file.schema_arrow.names) or not file.num_row_groups:
        return
    rows = file.read_row_group(0, columns=["kind", "operation"])
    kernels = rows.filter(pc.equal(rows["kind"], "kernel"))
    if kernels.num_rows and kernels["operation"].null_count == kernels.num_rows:
        tell(f"{output}: kernels have no operation, library and precision; --classify adds them", err=True)
