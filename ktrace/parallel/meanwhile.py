"""Does one thing in a thread while the caller does another.

It pays if both release the interpreter lock most of the time, as numpy and Arrow do with large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Made = TypeVar("Made")


@contextmanager
def meanwhile(make: Callable[[], Made], *, worthwhile: bool = True) -> Iterator[Callable[[], Made]]:
    """Calls `make` in a thread while the block runs. Gives a function that returns its result, or raises its error.

    Unless that is `worthwhile`, no thread starts, and `make` is called when its result is asked for. The thread has
    ended when the block has, also after an error.
    """
    if not worthwhile:
        yield make
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "ktrace-meanwhile") as thread:
        made = thread.submit(make)
        yield made.result
