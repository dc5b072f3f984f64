from __future__ import annotations

import io
import threading
import time

import pytest

from ktrace.parallel.threads import START, WAITING, InOrder, WriteBehind


def test_bytes_come_in_the_order_in_which_they_were_handed_over() -> None:
    stream = io.BytesIO()
    writer = InOrder(stream)
    for number in range(20):
        writer.write(b"(%d" % number)

        def slow(number: int = number) -> bytes:
            time.sleep(0.002 * (number % 3))
            return b" %d)" % number

        writer.make(slow, worthwhile=number > 3)
    writer.close()
    assert stream.getvalue() == b"".join(b"(%d %d)" % (number, number) for number in range(20))


def test_what_is_worthwhile_is_made_in_a_thread_and_what_follows_it_too() -> None:
    made: list[str] = []

    def make() -> bytes:
        made.append(threading.current_thread().name)
        return b""

    writer = InOrder(io.BytesIO())
    for worthwhile in (False, True, False):
        writer.make(make, worthwhile=worthwhile)
    writer.close()
    assert made[0] == threading.current_thread().name
    assert made[1] == made[2] != made[0]


def test_few_pieces_wait() -> None:
    may_end = threading.Event()
    begun: list[int] = []

    def make(number: int) -> bytes:
        begun.append(number)
        assert may_end.wait(10)
        return b""

    writer = InOrder(io.BytesIO())
    for number in range(WAITING):
        writer.make(lambda number=number: make(number), worthwhile=True)  # type: ignore[misc]
    timer = threading.Timer(0.1, may_end.set)
    timer.start()
    writer.make(lambda: make(WAITING), worthwhile=True)  # waits for the first one
    assert may_end.is_set()
    writer.close()
    assert begun == list(range(WAITING + 1))


def test_an_error_of_the_thread_is_raised() -> None:
    writer = InOrder(io.BytesIO())
    with pytest.raises(ZeroDivisionError):
        writer.make(lambda: b"0" * (1 // 0), worthwhile=True)
        writer.close()


def test_a_stream_that_is_closed_meanwhile_ends_the_thread() -> None:
    """A conversion that fails closes its output while pieces are still waiting."""
    before = threading.active_count()
    stream = WriteBehind(io.BytesIO())
    stream.write(b"0" * (START + 1))  # its thread runs
    writer = InOrder(stream)  # type: ignore[arg-type]
    gate = threading.Event()
    writer.make(lambda: b"1" if gate.wait(10) else b"", worthwhile=True)
    for _ in range(WAITING - 1):
        writer.write(b"2")
    stream.close()
    gate.set()
    with pytest.raises(ValueError, match="closed"):
        writer.close()
    del writer
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before  # one of an earlier test may end meanwhile
