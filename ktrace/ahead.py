"""Work that overlaps with the work behind it: the next item is made in a thread while one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
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
