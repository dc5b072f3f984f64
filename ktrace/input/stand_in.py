"""Inputs that are read as another format: their room first makes a file of that format with the same content.

    run.nsys-rep  ──► nsys export ──► /tmp/ktrace.x/run.sqlite ──► the reader of `nsys`

The file lives as long as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.source import Source

    Make = Callable[[Source, Conversion], AbstractContextManager[Source]]

_kept: ContextVar[tuple[ExitStack, dict[str, Source]] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_stand_ins() -> Iterator[None]:
    """Within this block a file that was made for an input is kept for its next reading."""
    with ExitStack() as stack:
        token = _kept.set((stack, {}))
        try:
            yield
        finally:
            _kept.reset(token)


@contextmanager
def stand_in(make: Make, source: Source, conversion: Conversion) -> Iterator[Source]:
    """Yields the source with the file that `make` makes for it. Raises what `make` raises."""
    kept = _kept.get()
    if kept is None:
        with make(source, conversion) as made:
            yield made
        return
    stack, known = kept
    if source.path not in known:
        known[source.path] = stack.enter_context(make(source, conversion))
    yield known[source.path]
