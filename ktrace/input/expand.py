"""Files, patterns and folders that the user names become inputs with labels.

run.log            one input
'ranks/*.json.gz'  an input for each file that matches, also where the shell doesn't expand patterns
rocprof-out/       one input, if a format claims the folder as one trace
traces/            otherwise an input for each file that a format recognises; the others are noted

A file counts once, however often and by whatever names it is given.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from ktrace.conversion import Conversion
from ktrace.errors import AmbiguousFormat, ClosedFormat, InputError, UnknownFormat
from ktrace.input.boundary import report_bad_file
from ktrace.input.compression import ARCHIVES, split_member
from ktrace.input.dataset_manifest import FLEET_MARK
from ktrace.input.detection import by_name, choose, decide, detect_all, note_failures, wrapping_for
from ktrace.input.format import Format, Score
from ktrace.input.ranks import Part, parts_in
from ktrace.input.source import MAPPING_SUFFIX, Source, near_files, stem
from ktrace.input.stores import as_folder, has_wildcard, is_remote, remote_files
from ktrace.naming.alike import unique_name
from ktrace.report import Report

#: Suffixes of files that SQLite keeps next to a database, and of a mapping next to a table.
_COMPANIONS = ("-wal", "-shm", "-journal", MAPPING_SUFFIX)


def paths_of(src: str | Path | Sequence[str | Path]) -> list[str]:
    """Returns the input of a call, one path or several, as a list of text."""
    return [str(src)] if isinstance(src, (str, Path)) else [str(path) for path in src]


class Input(msgspec.Struct, frozen=True):
    """A path that is one source; its format, if that is known already; its place in the folder that the user named.

    One that is `found` among others in a folder may be bad: the others are read. A `part` are the lines of one process.
    """

    path: str
    format: Format | None = None
    inside: str = ""
    found: bool = False
    part: Part | None = None


def expanded(paths: Sequence[str], report: Report, format: str | None = None) -> list[Input]:
    """Returns the inputs that the paths name, each once, in order. `format` is the format of all of them.

    Files of a folder that no format recognises are noted in the report, and so are an earlier output and what is named
    twice; damaged ones are left out. Raises InputError if no file matches a pattern or a folder contains no trace, and
    what `choose` raises.
    """
    fixed = by_name(format) if format else None
    inputs: list[Input] = []
    for path in paths:
        for one in _matching(path, report):
            if Source(one).is_folder:
                inputs += _in_folder(one, fixed, report)
            else:
                inputs.append(Input(one, fixed, one.partition("://")[2] or one if one != path else ""))
    return each_once(inputs, report)


def in_parts(one: Input) -> list[Input]:
    """Returns the logs of the processes in a file as inputs, of which each has a format; else the input itself."""
    if "://" in one.path or one.path.lower().endswith(ARCHIVES) or not Path(one.path).is_file():
        return [one]
    parts: list[Part] = []
    with suppress(InputError), Source(one.path, regular=one.found).open(quiet=True) as stream:
        parts = parts_in(stream)
    inputs: list[Input] = []
    for part in parts:
        try:
            fmt = one.format or choose(Source(one.path, part=part))
        except InputError:
            continue
        inputs.append(replace(one, format=fmt, part=part))
    return inputs if parts and len(inputs) == len(parts) else [one]


class _Named(Protocol):
    @property
    def path(self) -> str: ...


_Any = TypeVar("_Any", bound=_Named)


def each_once(inputs: Sequence[_Any], report: Report) -> list[_Any]:
    """Returns the inputs without those that are an earlier one by another name, or within a folder that is one input.

    Links are followed; copies and hard links are files of their own. What is left out is noted in the report.
    """
    places = [_identity(one.path) for one in inputs]
    # An archive that is read by its own name has one file, so that the name of a file in it is that one's.
    archives = {place for place in places if place.name.lower().endswith(ARCHIVES)}
    places = [whole if (whole := Path(split_member(str(place))[0])) in archives else place for place in places]
    folders = {place: one.path for place, one in zip(places, inputs, strict=True) if Source(one.path).is_folder}
    left: dict[Path, _Any] = {}
    for place, one in zip(places, inputs, strict=True):
        around = next((folders[folder] for folder in place.parents if folder in folders), None) if folders else None
        if around is not None:
            report.issue("same-run", one.path, f"is within {around}, which is read as one trace")
        elif place in left:
            again = left[place].path
            report.issue(
                "same-run", one.path, "is given twice" if again == one.path else f"is the same file as {again}"
            )
        else:
            left[place] = one
    return list(left.values())


def _identity(path: str) -> Path:
    """Returns what is equal for all names of a file: its real path, with the member of an archive; a URL itself.

    Keys of object stores are literal: `a//x` and `a/./x` are other objects than `a/x`, which a path alone would equal.
    """
    if is_remote(path):
        return Path(
            "/".join(f"\x01{part}" if part in ("", ".") else part for part in path.removesuffix("/").split("/"))
        )
    if path == "-":
        return Path(path)
    stored, member = split_member(path)
    return Path(os.path.realpath(stored) + (f"!{member}" if member is not None else ""))


def names_several(paths: Sequence[str], format: str | None = None) -> bool:
    """Returns whether the paths name several inputs. Raises what `expanded` raises."""
    if len(set(map(_identity, paths))) > 1:
        return True
    matching = (_matching(path, Report()) for path in paths)
    return any(len(one) > 1 or Source(one[0]).is_folder for one in matching) and (
        len(expanded(paths, Report(), format)) > 1
    )


def _matching(path: str, report: Report) -> list[str]:
    """Returns the path; for a pattern, the files that match; for a folder of a store its URL with '/' at the end.

    What a pattern finds that is neither a file nor a folder, such as a pipe, is noted in the report.
    """
    if is_remote(path):
        if has_wildcard(split_member(path)[0]):
            return list(remote_files(path))
        return [as_folder(path)]
    if path == "-" or not glob.has_magic(path) or os.path.lexists(path):
        return [path]
    paths = []
    from ktrace.model.tracks import natural  # it loads pyarrow

    for one in sorted(glob.glob(path, recursive=True), key=natural):  # noqa: PTH207 (pathlib refuses absolute patterns)
        if Path(one).is_dir() or not (why := _no_input(Path(one), None)):
            paths.append(one)
        else:
            report.issue("no-trace", one, why)
    if not paths:
        raise InputError(
            "no file matches this pattern",
            path=path,
            expected=near_files(path),
            remedy="check the spelling and the folder",
        )
    return paths


def _in_folder(path: str, fixed: Format | None, report: Report) -> list[Input]:
    """Returns the folder itself if a format claims it as one trace, otherwise the traces in it."""
    source = Source(path)
    sample = source.sample()
    matches = detect_all(sample)
    if not fixed:
        note_failures(matches, source, report)
    claims = [match for match in matches if match.score > Score.NEAR and fixed in (None, by_name(match.format))]
    if claims:
        fmt = fixed or decide(source, sample, claims)
        return [_remote_trace(path, fmt) if is_remote(path) else Input(path, fmt)]
    from ktrace.model.tracks import natural  # it loads pyarrow

    inputs, closed, bad = _traces_of(path, sorted(sample.listing or (), key=natural), fixed, report)
    if bad and not inputs:
        raise bad[0][1]
    for place, why_not in bad:
        report_bad_file(report, place, why_not)
    if inputs := _without_exported(inputs, report):
        return inputs
    if fixed and fixed.writes_folders:  # its reader knows better what is missing
        return [Input(path, fixed)]
    if closed and not fixed:  # it explains how to export it
        raise closed[0]
    if FLEET_MARK in (sample.listing or ()):
        raise UnknownFormat(
            "is a folder of `ktrace batch --fleet`, with a small table of each rank instead of its events",
            path=path,
            expected="the traces of the ranks",
            remedy="name their files; the same batch --fleet again answers from the tables, and fleet.html is its page",
        )
    raise UnknownFormat(
        "is a folder without a trace in it" + (f" of the format {fixed.name}" if fixed else ""),
        path=path,
        expected="files that a format recognises, or a canonical folder (events.parquet, ...)",
        remedy="name a file, and its format with --from",
    )


def _traces_of(
    path: str, listing: Iterable[str], fixed: Format | None, report: Report
) -> tuple[list[Input], list[ClosedFormat], list[tuple[str, InputError]]]:
    """Returns the traces of a folder, the closed files in it, and those that can't be read; notes what is no trace.

    Raises AmbiguousFormat, which is a matter of --from.
    """
    inputs: list[Input] = []
    closed: list[ClosedFormat] = []
    bad: list[tuple[str, InputError]] = []
    for name in listing:
        if name.endswith(_COMPANIONS):
            continue
        one = path + name if is_remote(path) else str(Path(path) / name)
        if why := "" if is_remote(path) else _no_input(Path(one), report.output):
            report.issue("no-trace", one, why)
            continue
        inside = Source(one, regular=True)
        try:
            fmt = choose(inside, report)
        except (UnknownFormat, ClosedFormat) as error:
            report.issue("no-trace", inside.path, error.what.splitlines()[0])
            closed += [error] if isinstance(error, ClosedFormat) else []
        except AmbiguousFormat:
            raise
        except InputError as error:
            if inside.size or (is_remote(path) and error.what != "is empty"):
                bad.append((inside.path, error))
            else:
                report.issue("no-trace", inside.path, error.what)
        else:
            if fixed in (None, fmt):
                inputs.append(Input(inside.path, fmt, name, found=True))
    return inputs, closed, bad


def _remote_trace(path: str, fmt: Format) -> Input:
    """Returns a folder in a store that is one trace. Raises InputError for a format that reads local folders alone."""
    if not fmt.writes:
        raise InputError(
            f"is a folder of the format {fmt.name}, which is read as a whole",
            path=path,
            expected="a local folder",
            remedy="copy it to this machine",
        )
    return Input(path, fmt)


def _without_exported(inputs: list[Input], report: Report) -> list[Input]:
    """Returns the inputs without those whose export is one of them, too: run.nsys-rep next to run.sqlite."""
    names = {(str(Path(one.path).with_suffix("")), one.format.name) for one in inputs if one.format}
    left: list[Input] = []
    for one in inputs:
        if one.format and one.format.via and (str(Path(one.path).with_suffix("")), one.format.via) in names:
            report.issue("same-run", one.path, "its export is next to it and is read instead")
        else:
            left.append(one)
    return left


def _no_input(path: Path, output: str | None) -> str:
    """Returns why a file of a folder isn't an input at all, '' if it may be."""
    if not path.is_file():
        return "is a broken link" if path.is_symlink() else "isn't a regular file"
    if output and Path(output).exists():
        written = Path(output).resolve()
        if written in (path.resolve(), *path.resolve().parents):
            return "is the output"
    return ""


def labels(inputs: Sequence[Input]) -> Iterator[str]:
    """Yields a label for each input: its stem; the path in the folder, too, where stems are equal; else with '#2'."""
    often = Counter(stem(one.path) for one in inputs)
    taken: set[str] = set()
    for one in inputs:
        label = one.part.label if one.part else stem(one.path)
        if often[label] > 1 and one.inside:
            label = str(PurePosixPath(one.inside).parent / label)
        unique = unique_name(label, taken.__contains__)
        taken.add(unique)
        yield unique


def open_input(one: Input, label: str, conversion: Conversion) -> tuple[Source, Format]:
    """Returns the source of an input and its format, detected if it isn't known. Raises what `choose` raises."""
    report = conversion.report
    place = f"{one.inside}: " if one.inside else ""
    source = Source(one.path, label, lambda where, why: report.issue("cut", place + where, why, 0), conversion.progress)
    source.regular, source.part = one.found, one.part
    if one.format is None:
        fmt = choose(source, report)
    else:
        fmt = one.format
        source.wrapping = wrapping_for(source, fmt)
    if source.wrapping:
        source.wrapping.report(report, place)
    return source, fmt
