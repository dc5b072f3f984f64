"""What processes of ktrace leave out at their start."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ktrace.analysis.answers.query.children import Bound, Children
from ktrace.parallel.workers import Workers

_STARTED = """
import gc, os, sys, ktrace.__main__
assert not gc.isenabled()
from ktrace.parallel.startup import import_pyarrow
import_pyarrow()
print("pandas" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 10_000)
print(os.environ.get("OPENBLAS_NUM_THREADS"), len(os.listdir("/proc/self/task")))
import pandas
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_what_a_start_leaves_out() -> None:
    threads = {}
    for wanted in ("None", "5"):
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        environment |= {"OPENBLAS_NUM_THREADS": wanted} if wanted != "None" else {}
        run = [sys.executable, "-c", _STARTED]
        done = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
        first, second = done.stdout.splitlines()
        assert first == "False True True"
        kept, _, threads[wanted] = second.partition(" ")
        assert kept == wanted
    assert int(threads["5"]) == int(threads["None"]) + min(5, len(os.sched_getaffinity(0))) - 1


def test_a_process_of_batch_has_no_pandas_either(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    try:
        first_array = "__import__('pyarrow').array([1]), 'pandas' in __import__('sys').modules"
        assert workers.call(eval, first_array)[1] is False
    finally:
        workers.end()


@pytest.mark.skipif(sys.platform != "linux", reason="what is loaded stands in /proc")
def test_nor_has_a_process_of_a_query() -> None:
    with closing(Children()) as children, children.one() as child:
        child.plan("select 1", None, Bound(memory=1 << 30, seconds=20))
        loaded = Path(f"/proc/{child._process.pid}/maps").read_text()
    assert "pyarrow" in loaded
    assert "pandas" not in loaded
