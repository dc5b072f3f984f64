"""A format: what it is called, how its files are recognised, and the functions that read and write them.

    FORMAT = Format("beeper", "Beeper log", ("*.beep",), probe=probe, read="ktrace_beeper.reader:read")

`ktrace.kit` is what those who write one import, docs/plugins.md explains it. The formats of ktrace are declared in the
folders of converters/, those of other packages by entry points.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ktrace.errors import KtraceError, error_text

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.capabilities import ByteRange, OpNode, Pushdown
    from ktrace.input.source import Sample, Source
    from ktrace.model.batch import Batch
    from ktrace.output import Sink


#: The group of the entry points, and of the file that names them.
GROUP = "ktrace.formats"


class Score(IntEnum):
    """How sure a probe is. NEAR means that it isn't this format, and explains what is missing.

    STATED means that the user says so, with a file next to the input.
    """

    NEAR = 0
    SUFFIX = 1
    SHAPE = 2
    DIALECT = 3
    MAGIC = 4
    STATED = 5


@dataclass(frozen=True)
class Match:
    """The answer of a probe: a score, and the reason in words.

    A closed format has a `remedy`: how to export it to something that can be read.
    """

    score: Score
    reason: str
    remedy: str | None = None


@dataclass(frozen=True)
class Detected:
    """A match with the name of its format.

    `failed` marks a format that couldn't be asked: its probe raised, or its plug-in can't be loaded. Its score is NEAR
    and its reason names the package and the error.
    """

    format: str
    score: Score
    reason: str
    remedy: str | None = None
    failed: bool = False


#: The fields of a `Format` that are functions. Each is the function, or its place as text, "package.module:name".
FUNCTIONS = (
    *("probe", "read", "writer", "about", "export", "texts"),
    *("read_part", "ranges", "read_range", "read_nodes", "scan", "propose"),
)


@dataclass(frozen=True)
class Format:
    """A format. Raises TypeError for a field that doesn't exist or has a wrong type, ValueError for a lack.

    Functions are given themselves or, where importing them takes time, as text, "package.module:name": only what a
    command needs is imported. The probe needs the standard library alone.

    Parameters
    ----------
    name, title
        What `--from` takes, and what `ktrace formats` shows beside it.
    patterns
        File names without a compression suffix (`*.jsonl`).
    probe : (sample) -> Match or None
        Recognises an input by its beginning and end.
    read : (source, conversion) -> iterator of Batch
        Yields the rows of a source and accounts for each of its records.

    writer : (sink, conversion) -> writer
        Makes a TableWriter, or where `timeline` is set a TimelineWriter, which takes what the stage `order` gives.
    overlap
        The writer draws overlapping device work, so that this needs no lanes and ends.
    writes_folders
        An output may be a folder.

    about : (source) -> dict of list of str
        What `ktrace info` says beyond what the rows do: headings and their lines.
    via, export : str, and (source, conversion) -> context manager of Source
        The format that this one is read as, in the place of `read`; `export` provides a file of it that says the same.
    closed
        It recognises files that the vendor's programs alone can read.
    texts : (source) -> iterator of RecordRun or Fault
        The canonical records as texts, for `ktrace validate`.
    read_part : (source, conversion, pushdown) -> iterator of Batch
        Reads some columns or some rows in a fraction of the time that all of them take. No slice comes in halves.
    ranges, read_range : (source, size, step) -> list of ByteRange, and (source, conversion, part) -> iterator of Batch
        Cuts an input of `size` bytes into ranges of about `step` bytes, in order, none where it can't; reads one.
    read_nodes : (source, conversion) -> iterator of list of OpNode
        The operators of a run with their arguments, for `--execution-trace`.
    captures
        Its calls may capture graphs whose replays it has, too. Ids of its rows are their places in the document.
    scan : (source, records) -> dict of dataset, or None
        The tables of these records, scanned by `ktrace query` where they are.
    propose : (sample, path) -> Proposal
        Guesses the mapping of a table's columns, for `ktrace map`.

    beside
        What is read beside one of its files: ("{stem}.def", "{stem}/*.evt"), where `{name}` is its name, `{stem}` that
        without the last suffix, `{plain}` that without a suffix of compression. Of a folder all files may be read.
    words, database, prose, document, reads_folders
        The probe isn't even imported for an input that can't be of the format: without one of `words`, in lower case,
        in its head or tail, without tables for a `database`, or if it begins as JSON for `prose` (text or bytes that
        never do), for a text that doesn't for a `document` (JSON as a whole, a page, or bytes), or for a folder unless
        the format `reads_folders`.
    logged
        What loggers put before its lines that it reads itself, by the layer's name (`wrapping.py`), such as "a time",
        or "any layer". Other formats get their lines without that.
    binary
        Its files aren't text: records have lengths or pages, and no account of single bytes is kept.
    holds
        What is in memory of an input beside some of its rows: "blocks" of several MB, a part of all "rows", or the
        "whole" document, up to a limit.
    max_score
        The best score of the probe; a format that may claim any table is asked only where no other one is sure.
    group
        The maker and tools below which docs list it, from converters/formats.py; a module doesn't give it.
    package
        The package and version that it comes from, empty for ktrace itself; not to be given.
    """

    name: str
    title: str
    patterns: tuple[str, ...] = ()
    probe: Callable[[Sample], Match | None] | str | None = None
    read: Callable[[Source, Conversion], Iterator[Batch]] | str | None = None
    writer: Callable[[Sink, Conversion], Any] | str | None = None
    timeline: bool = False
    overlap: bool = False
    writes_folders: bool = False
    about: Callable[[Source], dict[str, list[str]]] | str | None = None
    via: str = ""
    export: Callable[[Source, Conversion], AbstractContextManager[Source]] | str | None = None
    closed: bool = False
    texts: Callable[[Source], Iterator[Any]] | str | None = None
    read_part: Callable[[Source, Conversion, Pushdown], Iterator[Batch]] | str | None = None
    ranges: Callable[[Source, int, int], list[ByteRange]] | str | None = None
    read_range: Callable[[Source, Conversion, ByteRange], Iterator[Batch]] | str | None = None
    read_nodes: Callable[[Source, Conversion], Iterator[list[OpNode]]] | str | None = None
    captures: bool = False
    scan: Callable[[Source, Sequence[str]], dict[str, Any] | None] | str | None = None
    propose: Callable[[Sample, str], Any] | str | None = None
    beside: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    database: bool = False
    prose: bool = False
    logged: str = ""
    document: bool = False
    reads_folders: bool = False
    binary: bool = False
    holds: str = ""
    max_score: Score = Score.MAGIC
    group: str = ""
    package: str = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            value, kind = getattr(self, one.name), type(one.default)
            if one.name in FUNCTIONS:
                if value is not None and not callable(value) and not (isinstance(value, str) and ":" in value):
                    raise TypeError(f'its {one.name} is {value!r}, not a function or "package.module:name"')
            elif not isinstance(value, str if one.name in ("name", "title") else kind):
                raise TypeError(f"its {one.name} is a {type(value).__name__}")
        if self.holds not in ("", "blocks", "rows", "whole"):
            raise ValueError(f'it holds "{self.holds}", not blocks, rows or whole')
        for given, needed in (("read", "probe"), ("via", "export"), ("export", "probe"), ("ranges", "read_range")):
            if getattr(self, given) and not getattr(self, needed):
                raise ValueError(f"it has '{given}' without '{needed}'")

    @property
    def reads(self) -> bool:
        """Whether it recognises inputs, and reads them unless only the vendor can."""
        return self.probe is not None

    @property
    def writes(self) -> bool:
        """Whether it is written."""
        return self.writer is not None

    @property
    def origin(self) -> str:
        """The package and the version that it comes from."""
        from ktrace import __version__

        return self.package or f"ktrace {__version__}"

    def function(self, field: str) -> Any:
        """The function of a field, imported where it is given as text; None if the format lacks it.

        Raises what the import of one of ours raises, KtraceError for that of a plug-in.
        """
        value = getattr(self, field)
        if not isinstance(value, str):
            return value
        module, _, name = value.partition(":")
        try:
            return attrgetter(name)(import_module(module))
        except (Exception, SystemExit) as error:
            if not self.package:
                raise
            raise KtraceError(
                f"{value} of the format {self.name} can't be imported: {error_text(error)}",
                remedy=f"update or uninstall {self.package}, or name another format with --from",
            ) from error

    def recognised(self, sample: Sample) -> Match | None:
        """Returns the answer of the probe. Raises whatever the probe raises; `detect_sample` doesn't."""
        if not self.may_be(sample):
            return None
        match: Match | None = self.function("probe")(sample)
        if match is not None and not isinstance(match, Match):
            raise TypeError(f"the probe returned a {type(match).__name__}, not a Match or None")
        return match

    def may_be(self, sample: Sample, reach: int | None = None) -> bool:
        """Whether the probe must be asked. With `reach` words count in that many first characters and in the tail."""
        if sample.listing is not None:
            return self.reads_folders or bool(self.package)
        if self.database or (self.prose and sample.is_json):
            return sample.tables is not None
        if self.document and sample.text is not None and not (sample.is_json or sample.text.lstrip()[:1] == "<"):
            return False
        return not self.words or sample.has_any(self.words, reach)

    def batches(self, source: Source, conversion: Conversion) -> Iterator[Batch]:
        """Yields the batches of the source. Raises whatever the reader raises: `boundary` makes it an InputError."""
        if self.via:
            return self._by_another(source, conversion)
        read: Callable[[Source, Conversion], Iterator[Batch]] = self.function("read")
        if not self.package:
            return read(source, conversion)
        from ktrace.input.capabilities import guarded

        return guarded(f"the reader of the format {self.name}, of {self.package},", read, source, conversion)

    def _by_another(self, source: Source, conversion: Conversion) -> Iterator[Batch]:
        from ktrace.input.capabilities import exported_source

        with exported_source(self.function("export"), source, conversion) as made:
            yield from self._other().batches(made, conversion)

    def _other(self) -> Format:
        """Returns the format that this one is read as."""
        return next(fmt for fmt in all_formats() if fmt.name == self.via)

    def more_about(self, source: Source) -> dict[str, list[str]]:
        """Returns more about an input for `ktrace info`, heading -> lines; nothing if the format has no `about`."""
        if self.via:
            from ktrace.conversion import Conversion
            from ktrace.input.capabilities import exported_source
            from ktrace.report import Report

            with exported_source(self.function("export"), source, Conversion(Report())) as made:
                return self._other().more_about(made)
        try:
            about = self.function("about")
            more: dict[str, list[str]] = about(source) if about else {}
        except (Exception, SystemExit) as error:
            if not self.package:
                raise
            more = {f"about {self.name}": [f"its function about, of {self.package}, raised {error_text(error)}"]}
        return more

    @property
    def read_beside(self) -> tuple[str, ...]:
        """What is read beside one of its files, as in `beside`: of a database also changes that it doesn't have yet."""
        return (*self.beside, "{name}-wal", "{name}-journal") if self.database else self.beside

    def matches(self, filename: str) -> int:
        """Returns the length of the longest pattern that matches the name, 0 if none does. Case doesn't matter."""
        fitting = [len(pattern) for pattern in self.patterns if fnmatch(filename.lower(), pattern.lower())]
        return max(fitting, default=0)


@cache
def builtin_formats() -> tuple[Format, ...]:
    """Returns the formats of ktrace itself, in the order of the table in the README."""
    formats: tuple[Format, ...] = import_module("ktrace.converters.listed").FORMATS
    return formats


@dataclass(frozen=True)
class Plugins:
    """The formats of other packages, and the plug-ins that can't be loaded."""

    formats: tuple[Format, ...]
    failures: tuple[Detected, ...]


def may_have_entry_points() -> bool:
    """Whether `importlib.metadata` may find entry points of the group, by a look into the folders of `sys.path`.

    It takes 1 ms among 120 packages, `importlib.metadata` 40 ms, which is asked only if something is there, or may be:
    in a zip file, an egg, or wherever another finder of modules looks.
    """
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True
    return any(_may_have(path or ".") for path in dict.fromkeys(sys.path))


def _may_have(path: str) -> bool:
    try:
        names = os.listdir(path)  # noqa: PTH208 (pathlib makes an object for each)
    except FileNotFoundError:
        return False
    except OSError:  # a zip file
        return True
    for name in names:
        if name.endswith(".egg"):
            return True
        if name.endswith((".dist-info", ".egg-info")) and _names_group(f"{path}/{name}/entry_points.txt"):
            return True
    return False


def _names_group(file: str) -> bool:
    try:
        with open(file, "rb", buffering=0) as stream:
            return GROUP.encode() in stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


@cache
def plugins() -> Plugins:
    """Loads the entry points of the group `ktrace.formats`; those that fail are named in `failures`.

    If the environment variable KTRACE_PLUGINS is empty, none are loaded.
    """
    if os.environ.get("KTRACE_PLUGINS") == "" or not may_have_entry_points():
        return Plugins((), ())
    from importlib.metadata import entry_points

    formats: list[Format] = []
    failures: list[Detected] = []
    taken = {fmt.name for fmt in builtin_formats()}
    entries = entry_points(group=GROUP)
    for entry in sorted(entries, key=lambda entry: (entry.dist.name if entry.dist else "", entry.name)):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"
        try:
            fmt = _plugin(entry.load(), taken)
        except (Exception, SystemExit) as error:
            why = f"its plug-in {entry.value} can't be loaded from {package}: {error_text(error)}"
            failures.append(Detected(entry.name, Score.NEAR, why, failed=True))
        else:
            taken.add(fmt.name)
            formats.append(replace(fmt, package=package))
    return Plugins(tuple(formats), tuple(failures))


def _plugin(loaded: object, taken: set[str]) -> Format:
    """Returns the format that an entry point names. Raises TypeError, ValueError or ImportError for an unusable one."""
    if not isinstance(loaded, Format):
        raise TypeError(f"it is a {type(loaded).__name__}, not a ktrace.kit.Format")
    if loaded.name in taken:
        raise ValueError(f"the name {loaded.name} belongs to another format")
    for field in FUNCTIONS:
        place = getattr(loaded, field)
        if isinstance(place, str) and find_spec(place.partition(":")[0]) is None:
            raise ImportError(f"its {field} is {place}, and there is no such module")
    return loaded


def plugin_formats() -> tuple[Format, ...]:
    """The formats of other packages that can be loaded."""
    return plugins().formats


def plugin_failures() -> tuple[Detected, ...]:
    """The plug-ins that can't be loaded, each with the reason."""
    return plugins().failures


def readable() -> list[tuple[str, str]]:
    """Name and title of each format that ktrace reads, from an export at least."""
    return [(fmt.name, fmt.title) for fmt in all_formats() if fmt.reads and (fmt.via or not fmt.closed)]


def writable() -> list[tuple[str, str]]:
    """Name and title of each format that ktrace writes."""
    return [(fmt.name, fmt.title) for fmt in all_formats() if fmt.writes]


def all_formats() -> tuple[Format, ...]:
    """Lists every format, those of other packages after ours.

    Returns
    -------
    tuple of Format
        Name, title, file patterns, and what ktrace does with it.

    Raises
    ------
    Nothing: a plug-in that can't be loaded is left out, with a warning.

    Examples
    --------
    >>> import ktrace
    >>> [fmt.name for fmt in ktrace.formats() if fmt.writes and fmt.timeline]
    ['perfetto', 'chrome', 'speedscope', 'folded', 'otlp', 'nsys-csv']
    """
    return builtin_formats() + plugin_formats()
