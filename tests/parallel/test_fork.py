"""Children that work: results in the order of the tasks, and nothing stays, not even when the parent is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest

from ktrace.errors import KtraceError
from ktrace.model.batch import Batch
from ktrace.parallel.fork import Workers

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def squares(number: int) -> Generator[Batch, None, str]:
    """A batch with the square of the number."""
    yield Batch("events", pa.RecordBatch.from_arrays([pa.array([number * number])], ["id"]))
    return f"{number}"


def test_results_come_in_the_order_of_the_tasks() -> None:
    workers = Workers(squares, 40, 3)
    helped = 0
    try:
        for number in range(40):
            result = workers.result(number)
            if result:
                helped += 1
                assert result.value == str(number)
                assert [batch.column("id").to_pylist() for batch in result.batches] == [[number * number]]
            else:  # it is this process's turn
                time.sleep(0.02)
    finally:
        workers.close()
    assert helped


def test_a_child_that_dies_is_an_error() -> None:
    parent = os.getpid()

    def dying(number: int) -> Generator[Batch, None, str]:
        if os.getpid() != parent:
            os._exit(1)
        return (yield from squares(number))

    workers = Workers(dying, 1000, 2)
    try:
        with pytest.raises(KtraceError, match="ended too early"):
            for number in range(1000):
                if workers.result(number) is None:
                    time.sleep(0.02)  # so that the child has its turn
    finally:
        workers.close()


def test_an_idle_child_waits_for_its_next_task() -> None:
    """A parent that looks for a free task, and finds none, doesn't wake the children that wait for one.

    One that ended for it took the results of the others with it.
    """
    for _ in range(10):
        workers = Workers(nothing, 200, 3)
        try:
            for number in range(200):
                workers.result(number)
            assert [os.waitpid(child.pid, os.WNOHANG) for child in workers._children] == [(0, 0), (0, 0)]
        finally:
            workers.close()


def nothing(number: int) -> Generator[Batch, None, int]:
    """A task without work."""
    return number
    yield Batch("events", pa.RecordBatch.from_arrays([], []))


SCRIPT = """
import os, signal, sys, tempfile, time
tempfile.tempdir = sys.argv[1]
sys.path.insert(0, sys.argv[2])
from test_fork import squares
from ktrace.parallel.fork import Workers
workers = Workers(squares, 40, 3)
for number in range(10):
    workers.result(number)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_stays_when_the_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode < 0
    for _ in range(200):
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())
