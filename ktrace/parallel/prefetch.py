"""Makes the next item in a thread while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yields the items in order, each made while the one before is used.

    It pays if making an item releases the interpreter lock: in numpy, Arrow, SQLite. An error is raised in the place of
    its item.
    """
    from concurrent.futures import ThreadPoolExecutor

    ended = object()

    def following() -> Item | object:
        return next(items, ended)

    try:
        with ThreadPoolExecutor(1, "ktrace-ahead") as maker:
            context = copy_context()  # which limits hold
            coming = maker.submit(context.run, following)
            while (item := coming.result()) is not ended:
                coming = maker.submit(context.run, following)
                yield item  # type: ignore[misc]
    finally:
        if isinstance(items, Generator):
            with suppress(ValueError):  # the thread still runs it, since waiting for the thread was interrupted
                items.close()


def prefetch_map(items: Sequence[Item], make: Callable[[Item], Made], threads: int) -> Generator[Made, None, None]:
    """Yields `make(item)` for each item, in order, made by threads that are one item each ahead of the current one."""
    from concurrent.futures import Future, ThreadPoolExecutor

    coming: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads, "ktrace-ahead") as makers:
        for item in items:
            coming.append(makers.submit(copy_context().run, make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
