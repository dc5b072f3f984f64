"""Whether the tests of a format notice a reader that is wrong: `python -m tests.mutation --format mlc`.

For every format that reads, and every mutation that changes something in what its tests read, the tests of the format
run in a process in which its reader gives mutated batches. Killed is a mutation by which a test fails, named beside it;
what survives is a gap in the tests. With --contract `*` marks those that only the tests of all formats kill.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas  # noqa: F401  like ktrace.pipeline for the tests alone: imported once, not in every process
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ktrace.pipeline.convert  # noqa: F401
from ktrace.input.format import Format, builtin_formats
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.schema import RECORDS

TESTS = Path(__file__).parent
TIMEOUT = 600  # seconds: what makes a test hang is noticed, too

#: Mutates a batch of events, summaries or links; None where there is nothing in it to mutate.
Mutation = Callable[[Batch], Batch | None]

FIGURES = ("total", "avg", "median", "min", "max", "stddev", "p95", "p99")
SWAPPED = ("ts/dur", "total/avg", "avg/median", "min/max", "grid_x/block_x", "device/stream", "pid/tid")
COUNTED = ("device", "stream", "context", "pid", "tid", "correlation", "count", "bytes", "registers", "value")
#: Another kind that the model allows where this one stands.
KINDS = {
    "kernel": "api",
    "api": "op",
    "op": "range",
    "range": "op",
    "memcpy": "memset",
    "memset": "memcpy",
    "sync": "api",
    "alloc": "range",
    "overhead": "range",
    "graph": "kernel",
    "instant": "log",
    "log": "instant",
    "sample": "instant",
}


def _replaced(batch: Batch, columns: dict[str, pa.Array]) -> Batch | None:
    """The batch with these columns in the place of its own; None where they are its own."""
    rows = batch.columns
    changed = {name: array.cast(rows.column(name).type) for name, array in columns.items()}
    if all(decoded(array).equals(decoded(rows.column(name))) for name, array in changed.items()):
        return None
    names = rows.schema.names
    arrays = [changed.get(name, column) for name, column in zip(names, rows.columns, strict=True)]
    return Batch(batch.record, pa.RecordBatch.from_arrays(arrays, schema=rows.schema))


def swap(first: str, second: str, batch: Batch) -> Batch | None:
    """Two columns change places in the rows that have both."""
    if not (batch.has(first) and batch.has(second)):
        return None
    one, other = batch.columns.column(first), batch.columns.column(second)
    both = pc.and_(one.is_valid(), other.is_valid())
    return _replaced(batch, {first: pc.if_else(both, other, one), second: pc.if_else(both, one, other)})


def unit_ns(batch: Batch) -> Batch | None:
    """Durations and figures in ns are a thousand times as long."""
    if batch.record == "events":
        return _replaced(batch, {"dur": pc.multiply(batch.column("dur"), 1000)}) if batch.has("dur") else None
    if not batch.has("unit"):
        return None
    in_ns = pc.fill_null(pc.equal(decoded(batch.column("unit")), "ns"), False)
    figures = {name: batch.column(name) for name in FIGURES if batch.has(name)}
    return _replaced(batch, {name: pc.if_else(in_ns, pc.multiply(it, 1000), it) for name, it in figures.items()})


def unit_bytes(batch: Batch) -> Batch | None:
    """KiB are taken for bytes."""
    return _replaced(batch, {"bytes": pc.multiply(batch.column("bytes"), 1024)}) if batch.has("bytes") else None


def count_on(column: str, batch: Batch) -> Batch | None:
    """A number is greater by one."""
    return _replaced(batch, {column: pc.add(batch.column(column), 1)}) if batch.has(column) else None


def kind_of(kind: str, batch: Batch) -> Batch | None:
    """Rows of one kind are of another."""
    if not batch.has("kind"):
        return None
    kinds = decoded(batch.column("kind"))
    return _replaced(batch, {"kind": pc.if_else(pc.equal(kinds, kind), KINDS[kind], kinds).dictionary_encode()})


def drop_argument(batch: Batch) -> Batch | None:
    """The last argument of each row, and the last column of arguments, vanishes."""
    rows = batch.columns
    for name in reversed(batch.typed_args()):
        if rows.column(name).null_count < len(batch):
            return Batch(batch.record, rows.drop_columns([name]))
    if not batch.has("args"):
        return None
    kept = [dict([*json.loads(text or "{}").items()][:-1]) for text in decoded(batch.column("args")).to_pylist()]
    return _replaced(batch, {"args": pa.array([json.dumps(args) if args else None for args in kept], pa.string())})


def drop_row(record: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The last row of all vanishes, whatever the size of the batches."""
    held: list[Batch] = []
    for batch in batches:
        if batch.record == record and len(batch):
            yield from held
            held.clear()
        held.append(batch)
    for at, batch in enumerate(held):
        last = not at and batch.record == record and len(batch)
        yield Batch(record, batch.columns.slice(0, len(batch) - 1)) if last else batch


def exchange_names(record: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The first name changes places with the next that is another, whatever the size of the batches."""
    held: list[Batch] = []
    first = None
    found = False
    for batch in batches:
        held.append(batch)
        if not found and batch.record == record and batch.has("name") and len(batch):
            names = decoded(batch.columns.column("name")).to_pylist()
            first = first or (len(held) - 1, names[0])
            other = next((at for at, name in enumerate(names) if name != first[1]), None)
            if other is not None:
                held[-1] = _renamed(batch, other, first[1])
                held[first[0]] = _renamed(held[first[0]], 0, names[other])
                found = True
        if found:
            yield from held
            held.clear()
    yield from held


def _renamed(batch: Batch, at: int, name: str) -> Batch:
    names = decoded(batch.columns.column("name")).to_pylist()
    names[at] = name
    return _replaced(batch, {"name": _as_type(names, batch.columns.column("name").type)}) or batch


def _as_type(values: list[Any], type: pa.DataType) -> pa.Array:
    return pa.array(values).dictionary_encode() if pa.types.is_dictionary(type) else pa.array(values, type)


#: Mutations of all that a reader gives of an input.
STREAMS: dict[str, Callable[[Iterable[Batch]], Iterator[Batch]]] = {
    **{f"drop-row:{record}": partial(drop_row, record) for record in RECORDS[:3]},
    **{f"name:{record}": partial(exchange_names, record) for record in RECORDS[:2]},
}
#: Mutations of one batch.
BATCHES: dict[str, Mutation] = {
    **{f"swap:{pair}": partial(swap, *pair.split("/")) for pair in SWAPPED},
    "unit:ns": unit_ns,
    "unit:bytes": unit_bytes,
    **{f"count:{column}": partial(count_on, column) for column in COUNTED},
    **{f"kind:{kind}": partial(kind_of, kind) for kind in KINDS},
    "args": drop_argument,
}
MUTATIONS = (*STREAMS, *BATCHES)


def mutated(batches: Iterable[Batch], name: str) -> Iterator[Batch]:
    """What a reader gives, wrong in one way."""
    if name in STREAMS:
        yield from STREAMS[name](batches)
        return
    for batch in batches:
        other = None if batch.record == "catalog" else BATCHES[name](batch)
        yield batch if other is None else other


def observed(batches: Iterable[Batch], found: set[str]) -> Iterator[Batch]:
    """What a reader gives, as it is; the mutations that would change something are added to `found`."""
    names: dict[str, Any] = {}
    for batch in batches:
        if batch.record != "catalog" and len(batch):
            found.add(f"drop-row:{batch.record}")
            found.update([name for name, it in BATCHES.items() if name not in found and it(batch) is not None])
        if batch.record in RECORDS[:2] and batch.has("name") and len(batch):
            column = decoded(batch.columns.column("name"))
            if pc.any(pc.not_equal(column, names.setdefault(batch.record, column[0]))).as_py():
                found.add(f"name:{batch.record}")
        yield batch


@dataclass
class Outcome:
    """What came of a run: the first test that failed ("" if none did), how long each took that passed, in seconds, and
    the mutations that would have changed something."""

    failed: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)


class Observer:
    """A plugin of pytest that has the likely killers run first, and notes the outcome."""

    def __init__(self, order: dict[str, float], outcome: Outcome) -> None:
        self.order = order
        self.outcome = outcome

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda it: (it.get_closest_marker("forks") is None, self.order.get(it.nodeid, 0)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.outcome.failed = self.outcome.failed or report.nodeid
        elif report.passed:
            self.outcome.seconds[report.nodeid] = self.outcome.seconds.get(report.nodeid, 0) + report.duration


def _run(fmt: str, name: str, args: list[str], order: dict[str, float], answer: Connection) -> None:
    """Runs tests with a mutated reader, or an observed one where `name` is empty, and sends the outcome."""
    outcome = Outcome()
    original = Format.batches

    def read(self: Format, *given: Any) -> Iterator[Batch]:
        batches = original(self, *given)
        if self.name != fmt:
            return batches
        return mutated(batches, name) if name else observed(batches, outcome.found)

    Format.batches = read  # type: ignore[method-assign]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = pytest.main(["-x", "-q", "-m", "", "-p", "no:cacheprovider", *args], plugins=[Observer(order, outcome)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not outcome.failed:
        outcome.failed = "the tests can't be collected"
    answer.send(outcome)


def run(fmt: str, name: str, args: list[str], order: dict[str, float]) -> Outcome:
    """Runs tests in a process of their own, the lowest in `order` first."""
    fork = multiprocessing.get_context("fork")
    mine, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_run, args=(fmt, name, args, order, theirs))
    process.start()
    theirs.close()
    try:
        if not mine.poll(TIMEOUT):
            return Outcome("a test that hung")
        outcome: Outcome = mine.recv()
        return outcome
    except EOFError:
        return Outcome("a test that ended the process")
    finally:
        process.kill()
        process.join()


def files_of(fmt: str) -> list[str]:
    """The files of tests of a format: test_nsys.py, test_nsys_values.py, but not those of a longer name."""
    stems = {_stem(other.name) for other in builtin_formats()}
    files = []
    for file in sorted((TESTS / "converters").rglob(f"test_{_stem(fmt)}*.py")):
        rest = file.stem.removeprefix("test_")
        owner = max((stem for stem in stems if rest == stem or rest.startswith(f"{stem}_")), key=len, default="")
        files += [str(file)] if owner == _stem(fmt) else []
    return files + [str(path) for file in SEVERAL.get(fmt, ()) for path in (TESTS / "converters").rglob(file)]


def _stem(fmt: str) -> str:
    return fmt.replace("-", "_")


#: Files of other names that test a format, too.
SEVERAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("csv", "json", "jsonl", "parquet"),
        ("test_canonical.py", "test_canonical_files.py", "test_canonical_blocks.py"),
    ),
    "nsys-stats": ("test_nsys_traces.py",),
    **dict.fromkeys(
        ("bench-serve", "google-benchmark", "inductor", "kokkos", "nccl-tests", "onednn", "tau", "tinygrad"),
        ("test_printed_lines.py",),
    ),
    **dict.fromkeys(
        ("old-profilers", "proton-tree", "regions", "torch-benchmark", "triton-server", "unreal", "xrt"),
        ("test_printed_lines.py",),
    ),
    **dict.fromkeys(
        ("benchmark-tables", "benchmark-json", "triton-testing", "cprofile", "megatron", "taichi", "mlir-aie"),
        ("test_benchmarks.py",),
    ),
    "kineto": ("test_trace_producers.py",),
    "chrome": ("test_trace_producers.py",),
}


#: The tests of all formats, of which one is to be chosen.
CONTRACT = [str(TESTS / "test_contract.py"), "-k"]


def judge(fmt: str, names: Sequence[str], tests: list[str], contract: bool) -> Iterator[tuple[str, str, str]]:
    """Of each mutation: killed, survived or not applicable, and the test that failed."""
    plain = run(fmt, "", tests, {})
    if plain.failed or not plain.seconds:
        yield "none", "the tests fail without a mutation" if plain.failed else "no test passes", plain.failed
        return
    order = plain.seconds  # the quick ones first, and before them those that have killed
    for name in names:
        if name not in plain.found:
            yield name, "not applicable", ""
            continue
        failed = run(fmt, name, tests, order).failed
        if failed:
            order[failed] = -1
            yield name, "killed", failed
        elif contract and (failed := run(fmt, name, [*CONTRACT, f"[{fmt}/"], {}).failed):
            yield name, "killed", f"* {failed}"
        else:
            yield name, "survived", ""


def main(arguments: list[str]) -> int:
    """Prints a line a mutation; the exit code says whether one survived."""
    readers = list(dict.fromkeys(fmt.name for fmt in builtin_formats() if fmt.reads and not fmt.closed))
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--format", nargs="+", choices=readers, default=readers, metavar="NAME")
    parser.add_argument("--mutation", nargs="+", choices=MUTATIONS, default=list(MUTATIONS), metavar="NAME")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="in the place of the format's own")
    parser.add_argument("--contract", action="store_true", help="run test_contract.py, too, where all others pass")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    asked = parser.parse_args(arguments)
    survived = 0
    for fmt in asked.format:
        tests = asked.tests or files_of(fmt)
        if asked.list:
            print(fmt, *(Path(file).name for file in tests))
            continue
        for name, verdict, test in judge(fmt, asked.mutation, tests, asked.contract):
            print(f"{fmt:<17} {name:<22} {verdict:<15} {test}".rstrip(), flush=True)
            survived += verdict not in ("killed", "not applicable")
    if asked.list:
        print(*asked.mutation, sep="\n")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
