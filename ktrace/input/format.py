"""A format: a name, file patterns, and a room with a probe, a reader and a writer.

A room is a package with up to six modules beside each other; one of ours is named with a leading dot,
`.doppler` for `ktrace.converters.doppler`, one of another package by its whole path:

    probe.py    probe(sample: Sample) -> Match | None
    reader.py   read(source: Source, conversion: Conversion) -> Iterator[Batch]
    writer.py   Writer: a TableWriter, or a TimelineWriter where the format says `timeline`
    about.py    about(source: Source) -> dict[str, list[str]], if `ktrace info` should say more than what the rows do:
                heading -> lines
    export.py   exported(source: Source, conversion: Conversion) -> ContextManager[Source], in the place of a reader
                where the format is read as another one (`via`): the source by a file of that format that says the same
and modules for what it can do beyond that (capabilities.py beside this).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ktrace.errors import KtraceError
from ktrace.input.entry_points import GROUP, may_have_entry_points

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.source import Sample, Source
    from ktrace.model.batch import Batch
    from ktrace.output.sink import Sink


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


@dataclass(frozen=True)
class Format:
    """A format as data: its room isn't imported before it is used.

    `patterns` are file names without a compression suffix (`*.jsonl`). `timeline`: the writer takes what `order` gives.
    `overlap`: it draws overlapping device work, so that this needs no lanes and ends. `folder`: an output may be a
    folder. `closed`: the room only recognises files that the vendor alone can read. `via`: the format that this one is
    read as. `surest`: the best score of the probe; a format that may claim any table is asked only where no other one
    is sure.

    The probe isn't even imported for an input that can't be of the format: without one of `words`, in lower case, in
    its head or tail, without tables for a `database`, or if it begins as JSON for `prose`, or for a folder
    unless the format `reads_folders`.
    """

    name: str
    title: str
    room: str
    patterns: tuple[str, ...] = ()
    reads: bool = False
    writes: bool = False
    timeline: bool = False
    overlap: bool = False
    folder: bool = False
    closed: bool = False
    via: str = ""
    surest: Score = Score.MAGIC
    words: tuple[str, ...] = ()
    database: bool = False
    prose: bool = False
    reads_folders: bool = False

    def probe(self, sample: Sample) -> Match | None:
        """Returns the answer of the room's probe. Raises whatever the probe raises; `detect_sample` doesn't."""
        if not self.may_be(sample):
            return None
        match: Match | None = self._module("probe").probe(sample)
        if match is not None and not isinstance(match, Match):
            raise TypeError(f"the probe returned a {type(match).__name__}, not a Match or None")
        return match

    def may_be(self, sample: Sample, reach: int | None = None) -> bool:
        """Whether the probe must be asked. With `reach` words count in that many first characters and in the tail."""
        if sample.listing is not None:
            return self.reads_folders or not self.is_ours
        if self.database or (self.prose and sample.is_json):
            return sample.tables is not None
        return not self.words or sample.has_any(self.words, reach)

    def read(self, source: Source, conversion: Conversion) -> Iterator[Batch]:
        """Yields the batches of the source. Raises whatever the reader raises: `boundary` makes it an InputError."""
        if self.via:
            return self._read_by_another(source, conversion)
        read: Callable[[Source, Conversion], Iterator[Batch]] = self._module("reader").read
        return read(source, conversion) if self.is_ours else guarded(self, read, source, conversion)

    @property
    def is_ours(self) -> bool:
        """Whether its room is one of ktrace's own."""
        return self.room.startswith(".")

    def _read_by_another(self, source: Source, conversion: Conversion) -> Iterator[Batch]:
        from ktrace.input.stand_in import stand_in

        with stand_in(self._module("export").exported, source, conversion) as made:
            yield from self._other().read(made, conversion)

    def _other(self) -> Format:
        """Returns the format that this one is read as."""
        return next(fmt for fmt in all_formats() if fmt.name == self.via)

    def about(self, source: Source) -> dict[str, list[str]]:
        """Returns more about an input for `ktrace info`, heading -> lines; nothing if the room has no such module."""
        if self.via:
            from ktrace.conversion import Conversion
            from ktrace.input.stand_in import stand_in
            from ktrace.report import Report

            with stand_in(self._module("export").exported, source, Conversion(Report())) as made:
                return self._other().about(made)
        try:
            room = self.capability("about")
            more: dict[str, list[str]] = room.about(source) if room else {}
        except (Exception, SystemExit) as error:
            if self.is_ours:
                raise
            why = f"its module about.py, of {package_of(self.name)}, raised {error_text(error)}"
            more = {f"about {self.name}": [why]}
        return more

    def capability(self, name: str) -> Any:
        """Returns the module of a capability (`ktrace.input.capabilities`), None if the room doesn't have it."""
        return self._module(name) if self._has(name) else None

    def open_writer(self, sink: Sink, conversion: Conversion) -> Any:
        """Opens a writer to the sink: a TimelineWriter if `timeline`, else a TableWriter."""
        return self._module("writer").Writer(sink, conversion)

    def matches(self, filename: str) -> int:
        """Returns the length of the longest pattern that matches the name, 0 if none does. Case doesn't matter."""
        fitting = [len(pattern) for pattern in self.patterns if fnmatch(filename.lower(), pattern.lower())]
        return max(fitting, default=0)

    def _has(self, part: str) -> bool:
        room = import_module(self.room, "ktrace.converters")
        return find_spec(f"{room.__name__}.{part}") is not None

    def _module(self, part: str) -> Any:
        try:
            return import_module(f"{self.room}.{part}", "ktrace.converters")
        except (Exception, SystemExit) as error:
            if self.is_ours:
                raise
            raise KtraceError(
                f"the module {self.room}.{part} of the format {self.name} can't be imported: {error_text(error)}",
                remedy=f"update or uninstall {package_of(self.name)}, or name another format with --from",
            ) from error

    def missing_module(self) -> str | None:
        """Returns the name of a module that the format needs and its room lacks, None where all are there.

        Raises ImportError where the room itself can't be imported.
        """
        needed = {"probe": self.reads, "reader": self.reads and not self.via, "export": bool(self.via)}
        needed["writer"] = self.writes
        return next((part for part, is_needed in needed.items() if is_needed and not self._has(part)), None)


@cache
def builtin_formats() -> tuple[Format, ...]:
    """Returns the formats of ktrace itself, in the order of the table in the README."""
    formats: tuple[Format, ...] = import_module("ktrace.converters.formats").FORMATS
    return formats


def error_text(error: BaseException) -> str:
    """An exception as one line for a message: `ValueError: no digits`."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@dataclass(frozen=True)
class Plugins:
    """The formats of other packages, format -> package and version, and the plug-ins that can't be loaded."""

    formats: tuple[Format, ...]
    packages: dict[str, str]
    failures: tuple[Detected, ...]


@cache
def plugins() -> Plugins:
    """Loads the entry points of the group `ktrace.formats`; those that fail are named in `failures`."""
    if not may_have_entry_points():
        return Plugins((), {}, ())
    from importlib.metadata import entry_points

    formats: list[Format] = []
    packages: dict[str, str] = {}
    failures: list[Detected] = []
    taken = {fmt.name for fmt in builtin_formats()}
    found = entry_points(group=GROUP)
    for entry in sorted(found, key=lambda entry: (entry.dist.name if entry.dist else "", entry.name)):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"
        try:
            fmt = _plugin(entry.load(), taken)
        except (Exception, SystemExit) as error:
            why = f"its plug-in {entry.value} can't be loaded from {package}: {error_text(error)}"
            failures.append(Detected(entry.name, Score.NEAR, why, failed=True))
        else:
            taken.add(fmt.name)
            formats.append(fmt)
            packages[fmt.name] = package
    return Plugins(tuple(formats), packages, tuple(failures))


def _plugin(loaded: object, taken: set[str]) -> Format:
    """Returns the format that an entry point names. Raises TypeError, ValueError or ImportError for an unusable one."""
    if not isinstance(loaded, Format):
        raise TypeError(f"it is a {type(loaded).__name__}, not a ktrace.Format")
    for part, kind in (("name", str), ("title", str), ("room", str), ("patterns", tuple)):
        if not isinstance(value := getattr(loaded, part), kind):
            raise TypeError(f"its {part} is a {type(value).__name__}, not a {kind.__name__}")
    if loaded.name in taken:
        raise ValueError(f"the name {loaded.name} belongs to another format")
    if missing := loaded.missing_module():
        raise ImportError(f"the package {loaded.room} has no module '{missing}'")
    return loaded


def guarded(
    fmt: Format,
    read: Callable[[Source, Conversion], Iterator[Batch]],
    source: Source,
    conversion: Conversion,
) -> Iterator[Batch]:
    """Yields the batches that the reader of a plug-in yields.

    Raises what it raises, TypeError for anything but a batch, and KtraceError if it doesn't account for every record.
    """
    from ktrace.model.batch import Batch as Batches

    for batch in iter(read(source, conversion)):
        if not isinstance(batch, Batches):
            raise TypeError(f"it yields a {type(batch).__name__}, not a Batch")
        yield batch
    if not conversion.report.reader.balanced():
        ledger = conversion.report.reader
        accounted = ledger.given + ledger.removed.total() - ledger.added.total()
        raise KtraceError(
            f"the reader of the format {fmt.name}, of {package_of(fmt.name)}, "
            f"counted {ledger.taken:,} records, but accounted for {accounted:,}",
            path=source.path,
            remedy="report it to the authors of that package, or name another format",
        )


def package_of(name: str) -> str:
    """The package and the version that a format comes from."""
    from ktrace import __version__

    return f"ktrace {__version__}" if _is_builtin(name) else plugins().packages.get(name, "its package")


def _is_builtin(name: str) -> bool:
    return any(fmt.name == name for fmt in builtin_formats())


def plugin_formats() -> tuple[Format, ...]:
    """The formats of other packages that can be loaded."""
    return plugins().formats


def plugin_failures() -> tuple[Detected, ...]:
    """The plug-ins that can't be loaded, each with the reason."""
    return plugins().failures


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
