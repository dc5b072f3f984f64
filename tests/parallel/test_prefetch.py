"""Items that are made in a thread while others are used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ktrace.parallel.threads import prefetch


def test_items_come_in_order_each_made_ahead() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            yield number

    assert list(prefetch(make())) == made == [0, 1, 2, 3, 4]


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    items = prefetch(make())
    assert next(items) == 1
    with pytest.raises(ValueError, match="the second"):
        next(items)


def test_what_is_given_up_is_closed_and_leaves_no_thread() -> None:
    closed: list[bool] = []

    def make() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.append(True)

    items = prefetch(make())
    assert next(items) == 0
    items.close()
    assert closed == [True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ktrace-ahead")]


def test_who_is_interrupted_while_waiting_for_the_thread_hears_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def make() -> Iterator[int]:
        yield 0
        begun.set()
        go_on.wait(20)
        yield 1

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    items = prefetch(make())
    assert next(items) == 0
    assert begun.wait(20)
    with monkeypatch.context() as patched:
        patched.setattr("concurrent.futures.ThreadPoolExecutor.shutdown", interrupted)
        with pytest.raises(KeyboardInterrupt):
            items.close()
    go_on.set()
