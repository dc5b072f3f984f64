"""Opens a trace with OTF2's library, and merges its locations.

The library's own merge ends at the first location that can't be read, and doesn't begin if the file of one is missing.
So each location is read by itself.
"""

from __future__ import annotations

import ctypes
import heapq
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError, error_text, import_extra
from ktrace.input.boundary import report_bad_file
from ktrace.input.source import Source, file_in

from . import anchors
from .locations import Callbacks, Location, called
from .names import safe_name

#: Events that are handed out at once, and those that are held of all locations together.
_BATCH, _HELD = 4096, 1 << 15


class Archive:
    """A trace of which the definitions are read."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        """Raises InputError without the library or the trace's other files, DamagedInput for bad definitions."""
        library = import_extra("otf2", "otf2", "reading OTF2", path=source.path)
        self._low = import_module("_otf2")
        import_module("_otf2.Config").conf.lib.OTF2_Error_RegisterCallback(_SILENT, None)
        self._anchor, self._report = _anchor(source, conversion), conversion.report
        name = safe_name(self._anchor, self)
        try:
            with called():
                self._reader = library.reader.Reader(str(name))
        except MemoryError:
            raise
        except Exception as error:
            raise _damaged(error_text(error), source.path) from error
        self.definitions = self._reader.definitions

    @property
    def creator(self) -> str:
        """The program that wrote it, with its version; empty where it doesn't say."""
        return self._low.Reader_GetCreator(self._reader.handle) or ""

    def events(self) -> Iterator[list[tuple[Any, Any]]]:
        """Yields events with their locations in the order of their times, many at once.

        Reports locations that can't be read, or not to their end. Raises DamagedInput if nothing can be read of any.
        """
        callbacks = Callbacks(self.definitions)
        locations = [Location(self._reader.handle, one, callbacks) for one in self.definitions.locations]
        self._open(locations)
        size = max(1, min(_BATCH, _HELD // max(1, len(locations))))
        merged = heapq.merge(*(one.events(size) for one in locations), key=lambda pair: pair[1].time)
        while batch := list(islice(merged, _BATCH)):
            yield batch
        self._tell([one for one in locations if one.failed], any(one.taken for one in locations))

    def _open(self, locations: list[Location]) -> None:
        """Opens the files of all locations: their own definitions, if the trace has such, and their events."""
        low, handle = self._low, self._reader.handle
        for one in locations:
            low.Reader_SelectLocation(handle, one.ref)
        for opened in (low.Reader_OpenDefFiles, low.Reader_OpenEvtFiles):
            with suppress(low.Error), called():  # each location finds out which of its files is missing
                opened(handle)
        defined = [one.define() for one in locations]
        for one, is_defined in zip(locations, defined, strict=True):
            if any(defined) and not is_defined:
                one.failed = f"{one.ref}.def, which says what its events mean, is missing or isn't one of OTF2"
            if not one.failed:
                one.open()

    def _tell(self, bad: list[Location], has_any: bool) -> None:
        """Reports locations that couldn't be read, or not to their end. Raises DamagedInput if no event was read."""
        for one in bad:
            path = str(self._anchor.with_suffix("") / f"{one.ref}.evt")
            if not has_any:
                raise _damaged(one.failed, path)
            if one.taken:
                stated = f" of {one.stated:,}" if one.stated else ""
                self._report.issue("cut", f"{path}: after {one.taken:,}{stated} events", one.failed, 0)
            else:
                self._report.record(one.stated)
                report_bad_file(self._report, path, _damaged(one.failed), one.stated)

    def close(self) -> None:
        """Closes its files."""
        with called():
            self._reader.close()


def _damaged(why: str, path: str | None = None) -> DamagedInput:
    return DamagedInput(
        f"OTF2's library can't read it: {why}",
        path=path,
        expected="an OTF2 trace, whole",
        remedy="copy the whole folder again; otf2-print of OTF2 names the place",
    )


def _anchor(source: Source, conversion: Conversion) -> Path:
    """The local path of the anchor file; notes what else is in the folder.

    Raises InputError without its definitions.
    """
    path = Path(source.path)
    if source.is_folder:
        listing = source.sample().listing or ()
        names = anchors(listing)
        if len(names) != 1:
            raise InputError(f"has {len(names)} OTF2 traces", path=source.path, remedy="name the .otf2 file of one")
        stem = names[0].removesuffix(".otf2")
        for other in listing:
            if not other.startswith((f"{stem}.", f"{stem}/")):
                conversion.report.issue("no-trace", other)
        path = Path(file_in(source, names[0]).path)
    if source.stand_in or not path.with_suffix(".def").exists():
        raise InputError(
            "the other files of the trace aren't beside it",
            path=source.path,
            expected=f"{path.stem}.otf2, {path.stem}.def and the folder {path.stem} in one local folder",
            remedy="copy or unpack the whole folder, and name it",
        )
    return path


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_uint64,
    ctypes.c_char_p,
    ctypes.c_int,
    *[ctypes.c_void_p] * 2,
)


def _silent(_data: int, _file: bytes, _line: int, _function: bytes, code: int, _text: int, _values: int) -> int:
    return code


#: Takes the library's errors instead of its print: it raises them, too.
_SILENT = _CALLBACK(_silent)
