from __future__ import annotations

import threading

import pytest

from ktrace.parallel.threads import meanwhile


def test_what_is_worthwhile_runs_while_the_block_does() -> None:
    inside = threading.Event()

    def make() -> str:
        assert inside.wait(10)  # set by the block: it runs at the same time
        return threading.current_thread().name

    with meanwhile(make) as result:
        inside.set()
    assert result() != threading.current_thread().name


def test_what_is_not_worthwhile_runs_when_its_result_is_asked_for() -> None:
    calls: list[str] = []
    with meanwhile(lambda: calls.append(threading.current_thread().name), worthwhile=False) as result:
        assert not calls
    result()
    assert calls == [threading.current_thread().name]


def test_an_error_of_the_thread_is_raised_with_its_result() -> None:
    with meanwhile(lambda: 1 // 0) as result:
        pass
    with pytest.raises(ZeroDivisionError):
        result()


def test_the_thread_ends_with_the_block_also_after_an_error() -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), meanwhile(lambda: 1):
        raise KeyError
    assert threading.active_count() == before
