"""The events of one location of an OTF2 trace, and what callbacks raise while its library reads.

The library calls back from C, through which no exception passes: its Python package prints what a callback raises, or
ctypes does, and the library goes on or returns an error of its own. `called` takes what they print, and raises it.
"""

from __future__ import annotations

import ctypes
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from importlib import import_module
from threading import get_ident
from typing import Any

from ktrace.errors import error_text

#: The number of events of a location that doesn't state it.
_UNDEFINED = (1 << 64) - 1

_SETTER = re.compile(r"EvtReaderCallbacks_Set(\w+)Callback")


class Unknown:
    """An event of a type that the library doesn't know."""

    def __init__(self, time: int) -> None:
        self.time = time


class Callbacks:
    """Makes objects of the events that the library reads: `found` are those of the location that is read."""

    def __init__(self, definitions: Any) -> None:
        low, events = import_module("_otf2"), import_module("otf2.events")
        self._definitions = definitions
        self._attributes = import_module("otf2.attribute_list").AttributeList._construct
        self.found: list[Any] = []
        self.handle = low.EvtReaderCallbacks_New()
        self._kept = []  # the library keeps none of them alive
        for name in dir(low):
            if setter := _SETTER.fullmatch(name):
                kind = getattr(events, setter[1], None)
                self._kept.append(partial(self._take, kind) if kind else self._take_unknown)
                getattr(low, name)(self.handle, self._kept[-1])

    def _take(self, kind: Any, _ref: int, time: int, _position: int, _data: Any, attributes: Any, *args: Any) -> None:
        event = kind._construct(self._definitions, time, *args)
        event.attributes = self._attributes(self._definitions, attributes)
        self.found.append(event)

    def _take_unknown(self, _ref: int, time: int, *_: Any) -> None:
        self.found.append(Unknown(time))


class Location:
    """The events of a location. `taken` are those that were read, `stated` those that it has by its definition, or 0.

    `failed` is why it can't be read, or not to its end; empty if it can.
    """

    def __init__(self, archive: Any, definition: Any, callbacks: Callbacks) -> None:
        self.ref = definition._ref
        self.stated = definition.number_of_events if definition.number_of_events != _UNDEFINED else 0
        self.taken = 0
        self.failed = ""
        self._low, self._archive, self._definition, self._callbacks = (
            import_module("_otf2"),
            archive,
            definition,
            callbacks,
        )
        self._reader: Any = None

    def define(self) -> bool:
        """Reads its own definitions, which say what the numbers in its events mean. Returns whether it has any."""
        try:
            with called():
                if reader := self._low.Reader_GetDefReader(self._archive, self.ref):
                    self._low.Reader_ReadAllLocalDefinitions(self._archive, reader)
                    self._low.Reader_CloseDefReader(self._archive, reader)
        except self._low.Error as error:
            self.failed = f"{self.ref}.def: {error_text(error)}"
        return bool(reader)

    def open(self) -> None:
        """Opens the file of its events."""
        with called():
            self._reader = self._low.Reader_GetEvtReader(self._archive, self.ref)
            if self._reader:
                self._low.EvtReader_SetCallbacks(self._reader, self._callbacks.handle, None)
                self._low.EvtReader_ApplyMappingTables(self._reader, 1)
                self._low.EvtReader_ApplyClockOffsets(self._reader, 1)
            elif self.stated:
                self.failed = "the file is missing, or isn't one of OTF2"

    def events(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yields the location with each of its events, of which `size` are read at once; as far as they can be read."""
        ended = not self._reader
        while not ended:
            events: list[Any] = []
            self._callbacks.found = events
            try:
                with called():
                    ended = self._low.EvtReader_ReadEvents(self._reader, size) < size
            except MemoryError:
                raise
            except Exception as error:
                self.failed, ended = error_text(error), True
            self.taken += len(events)
            for event in events:
                yield self._definition, event
        if not self.failed and self.taken < self.stated:
            self.failed = "the file ends too early"


@contextmanager
def called() -> Iterator[None]:
    """In this block the library may call back. Raises what a callback raised, rather than the library's own error."""
    raised = _Raised()
    others, sys.unraisablehook = sys.unraisablehook, raised.hook
    try:
        with redirect_stderr(raised):
            yield
    except Exception as error:
        if isinstance(error, ctypes.ArgumentError) and KeyboardInterrupt.__name__ in str(error):
            raise KeyboardInterrupt from error  # what came while ctypes asked Python about an argument
        if raised.error is None:
            raise
        raise raised.error from error
    finally:
        sys.unraisablehook = others
    if raised.error is not None:
        raise raised.error


class _Raised(io.StringIO):
    """Takes what is printed: `error` is what a callback of this thread raised, an interruption before all else."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self._thread, self._stderr, self._hook = get_ident(), sys.stderr, sys.unraisablehook

    def _keep(self, error: BaseException | None) -> None:
        if error is not None and (self.error is None or not isinstance(error, Exception)):
            self.error = error

    def write(self, text: str) -> int:
        """The library's package prints an exception that it has caught."""
        if get_ident() != self._thread:
            return self._stderr.write(text)
        self._keep(sys.exc_info()[1])
        return len(text)

    def hook(self, unraisable: sys.UnraisableHookArgs) -> None:
        """ctypes has one that nobody caught; so has the end of a generator, and Python goes on."""
        is_ours = "ctypes" in (unraisable.err_msg or "") or not isinstance(unraisable.exc_value, Exception)
        if get_ident() == self._thread and is_ours:
            self._keep(unraisable.exc_value)
        else:
            self._hook(unraisable)
