"""What the user names as input becomes sources: files as they are, patterns and folders as the files in them.

run.log            one source
'ranks/*.json.gz'  a source a file that fits; shells that don't expand patterns leave that to us
rocprof-out/       one source, where a format claims the folder as one trace
traces/            else a source a file that a format knows; the others are noted
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat, InputError, UnknownFormat
from ktrace.input.detection import by_name, choose, decide, detect_all, note_failures
from ktrace.input.format import Format, Score
from ktrace.input.source import Source, stem
from ktrace.model.unique import unique_name
from ktrace.report import Report

#: Files that belong to another one beside them: SQLite's.
_BESIDE = ("-wal", "-shm", "-journal")


def paths_of(src: str | Path | Sequence[str | Path]) -> list[str]:
    """What a call names as its input, one path or several, as text."""
    return [str(src)] if isinstance(src, (str, Path)) else [str(path) for path in src]


@dataclass(frozen=True)
class Input:
    """A path that is one source; its format, if looking at it has told; where in a folder it was found."""

    path: str
    format: Format | None = None
    inside: str = ""


def expanded(paths: Sequence[str], report: Report, format: str | None = None) -> list[Input]:
    """The sources that the paths name, in order. `format` is the one that all of them have.

    Files of a folder that no format knows are noted in the report, and so is an earlier output. Raises InputError for
    a pattern that nothing fits and for a folder without a trace in it; and what `choose` raises.
    """
    fixed = by_name(format) if format else None
    found: list[Input] = []
    for path in paths:
        for one in _matching(path):
            if Source(one).is_folder:
                found += _in_folder(one, fixed, report)
            else:
                found.append(Input(one, fixed, one if one != path else ""))
    return found


def _matching(path: str) -> list[str]:
    """The path, or where it is a pattern the files that fit it."""
    if path == "-" or "://" in path or not glob.has_magic(path) or os.path.lexists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (an absolute pattern is none to pathlib)
    if not found:
        raise InputError("nothing fits this pattern", path=path, remedy="check the spelling and the folder")
    return found


def _in_folder(path: str, fixed: Format | None, report: Report) -> list[Input]:
    """The folder itself where a format claims it as one trace, else the files in it that are traces."""
    source = Source(path)
    sample = source.sample()
    matches = detect_all(sample)
    claims = [match for match in matches if match.score > Score.NEAR and fixed in (None, by_name(match.format))]
    if not fixed:
        note_failures(matches, source, report)
    if claims:
        return [Input(path, fixed or decide(source, sample, claims))]
    found: list[Input] = []
    closed: list[ClosedFormat] = []
    for name in sample.listing or ():
        if name.endswith(_BESIDE):
            continue
        if why := _no_input(Path(path) / name, report.output):
            report.issue("no-trace", str(Path(path) / name), why)
            continue
        inside = Source(str(Path(path) / name))
        try:
            fmt = choose(inside, report)
        except (UnknownFormat, ClosedFormat) as error:
            report.issue("no-trace", inside.path, error.what.splitlines()[0])
            closed += [error] if isinstance(error, ClosedFormat) else []
            continue
        except InputError as error:
            if inside.size:
                raise
            report.issue("no-trace", inside.path, error.what)
            continue
        if fixed in (None, fmt):
            found.append(Input(inside.path, fmt, name))
    found = _without_exported(found, report)
    if not found and fixed and fixed.folder:  # which says better what is missing
        return [Input(path, fixed)]
    if not found and closed and not fixed:  # which says how to export it
        raise closed[0]
    if not found:
        raise UnknownFormat(
            "is a folder without a trace in it" + (f" of the format {fixed.name}" if fixed else ""),
            path=path,
            expected="files that a format knows, or a canonical folder (events.parquet, ...)",
            remedy="name a file, and its format with --from",
        )
    return found


def _without_exported(found: list[Input], report: Report) -> list[Input]:
    """The inputs without those that stand beside their own export: run.nsys-rep beside run.sqlite."""
    names = {(str(Path(one.path).with_suffix("")), one.format.name) for one in found if one.format}
    left: list[Input] = []
    for one in found:
        if one.format and one.format.via and (str(Path(one.path).with_suffix("")), one.format.via) in names:
            report.issue("same-run", one.path, "its export stands beside it and is read")
        else:
            left.append(one)
    return left


def _no_input(path: Path, output: str | None) -> str:
    """Why a file of a folder isn't even looked at, '' if it is."""
    if not path.is_file():
        return "is a link to nothing" if path.is_symlink() else "is no plain file"
    if output and Path(output).exists():
        written = Path(output).resolve()
        if written in (path.resolve(), *path.resolve().parents):
            return "is the output"
    return ""


def labels(found: Sequence[Input]) -> Iterator[str]:
    """A label an input: its stem; of equal stems in a folder the path in it, too; else '#2' and so on."""
    often = Counter(stem(one.path) for one in found)
    taken: set[str] = set()
    for one in found:
        label = stem(one.path)
        if often[label] > 1 and one.inside:
            label = str(PurePosixPath(one.inside).parent / label)
        unique = unique_name(label, taken.__contains__)
        taken.add(unique)
        yield unique


def open_input(one: Input, label: str, conversion: Conversion) -> tuple[Source, Format]:
    """The source of an input and its format, which is looked for where it isn't known. Raises what `choose` raises."""
    report = conversion.report
    source = Source(one.path, label, lambda where, why: report.issue("cut", where, why, 0), conversion.progress)
    return source, one.format or choose(source, report)
