"""Opens a trace with OTF2's library, and keeps its errors together.

The library calls back from C, through which no exception passes. It prints them, and its own errors, all of
which it raises, too.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError, error_text, import_extra
from ktrace.input.source import Source, file_in

from . import anchors
from .names import safe_name

#: Events that are read at once.
_BATCH = 4096


class Archive:
    """A trace of which the definitions are read. `failed` is why not all events could be read, if so."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        """Raises InputError without the library or the trace's other files, DamagedInput for bad definitions."""
        library = import_extra("otf2", "otf2", "reading OTF2", path=source.path)
        import_module("_otf2.Config").conf.lib.OTF2_Error_RegisterCallback(_SILENT, None)
        self.failed = ""
        anchor = safe_name(_anchor(source, conversion), self)
        with _hushed() as printed:
            try:
                self._reader = library.reader.Reader(str(anchor), batch_events=_BATCH)
            except Exception as error:
                raise DamagedInput(
                    f"OTF2's library can't read it: {_reason(error, printed)}",
                    path=source.path,
                    expected="an OTF2 trace, whole",
                    remedy="copy the whole folder again; otf2-print of OTF2 names the place",
                ) from error
        self.definitions = self._reader.definitions

    @property
    def creator(self) -> str:
        """The program that wrote it, with its version; empty where it doesn't say."""
        return import_module("_otf2").Reader_GetCreator(self._reader.handle) or ""

    def events(self) -> Iterator[list[tuple[Any, Any]]]:
        """Yields events with their locations in the order of their times, many at once.

        Ends where the library can't read on, for the reason in `failed`.
        """
        events = iter(self._reader.events)
        while not self.failed:
            with _hushed() as printed:
                try:
                    batch = list(islice(events, _BATCH))
                except Exception as error:
                    batch = list(getattr(self._reader.events, "buffer", ()))
                    self.failed = _reason(error, printed)
            if not batch:
                return
            yield batch

    def close(self) -> None:
        """Closes its files."""
        with _hushed():
            self._reader.close()


@contextmanager
def _hushed() -> Iterator[io.StringIO]:
    """What callbacks of the library print: an exception that they raise ends the reading, too."""
    with redirect_stderr(io.StringIO()) as printed:
        yield printed


def _reason(error: Exception, printed: io.StringIO) -> str:
    """Why the library can't read on: the exception of a callback, if there was one."""
    return "; ".join([error_text(error), *printed.getvalue().strip().splitlines()[-1:]])


def _anchor(source: Source, conversion: Conversion) -> Path:
    """The local path of the anchor file; notes what else is in the folder.

    Raises InputError without its definitions.
    """
    path = Path(source.path)
    if source.is_folder:
        listing = source.sample().listing or ()
        found = anchors(listing)
        if len(found) != 1:
            raise InputError(f"has {len(found)} OTF2 traces", path=source.path, remedy="name the .otf2 file of one")
        stem = found[0].removesuffix(".otf2")
        for other in listing:
            if not other.startswith((f"{stem}.", f"{stem}/")):
                conversion.report.issue("no-trace", other)
        path = Path(file_in(source, found[0]).path)
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
