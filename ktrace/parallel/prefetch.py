"""Work that overlaps with the work behind it: the next item is made in a thread while one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items in their order, each made while the one before is worked on.

    It pays where making an item leaves the interpreter to others: in numpy, Arrow, SQLite. An error comes where its
    item would have come.
    """
    from concurrent.futures import ThreadPoolExecutor

    ended = object()
    try:
        with ThreadPoolExecutor(1, "ktrace-ahead") as maker:
            coming = maker.submit(next, items, ended)
            while (item := coming.result()) is not ended:
                coming = maker.submit(next, items, ended)
                yield item  # type: ignore[misc]
    finally:
        if isinstance(items, Generator):
            items.close()


def prefetch_map(items: Sequence[Item], make: Callable[[Item], Made], threads: int) -> Generator[Made, None, None]:
    """What is made of each item, in their order, by some threads, which are one item each ahead of what is used."""
    from concurrent.futures import Future, ThreadPoolExecutor

    coming: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads, "ktrace-ahead") as makers:
        for item in items:
            coming.append(makers.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
