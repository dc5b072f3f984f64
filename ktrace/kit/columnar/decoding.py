"""Helpers for decoding much JSON."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_gc() -> Iterator[None]:
    """Turns the cycle collector off: it would visit all decoded objects repeatedly, at more than the cost of decoding.

    No decoded object is part of a cycle.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_utf8(text: bytes) -> bool:
    """Whether the text is valid UTF-8."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
