"""The mutation test itself (`python -m tests.mutation`): what it calls killed, survived and not applicable.

Of a format's tests it is run by hand, since that takes half an hour: this is whether it can be believed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import ROOT, SAMPLES
from mutation import BATCHES, MUTATIONS, files_of, mutated

from ktrace.input.format import builtin_formats
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch, to_rows

SAMPLE = SAMPLES / "mlc" / "two-dialects-and-a-peak-that-disagrees.md"

#: Looks at the kinds and the number of rows, and at nothing else.
COARSE = f"""
import ktrace

def test_rows():
    kinds = ktrace.read({str(SAMPLE)!r}).summaries["kind"]
    assert len(kinds) == {{rows}}
    assert set(kinds) == {{{{"kernel"}}}}
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.mutation", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def verdicts(printed: str) -> dict[str, str]:
    return {line[18:40].strip(): line[41:56].strip() for line in printed.splitlines()}


@pytest.mark.nightly
def test_what_the_tests_do_not_look_at_survives(tmp_path: Path) -> None:
    tests = tmp_path / "test_coarse.py"
    rows = 6  # four kernels of one model, one of them with a peak alone, two of the other
    tests.write_text(COARSE.format(rows=rows))
    asked = ("drop-row:summaries", "kind:kernel", "kind:api", "name:summaries", "unit:ns")
    done = command("--format", "mlc", "--tests", str(tests), "--mutation", *asked)
    assert verdicts(done.stdout) == {
        "drop-row:summaries": "killed",
        "kind:kernel": "killed",
        "kind:api": "not applicable",
        "name:summaries": "survived",
        "unit:ns": "survived",
    }
    assert done.returncode == 1
    tests.write_text(COARSE.format(rows=rows + 1))
    done = command("--format", "mlc", "--tests", str(tests), "--mutation", *asked)
    assert "the tests fail without a mutation" in done.stdout
    assert done.returncode == 1


def test_the_tests_of_every_format_are_found() -> None:
    for fmt in builtin_formats():
        if fmt.reads and not fmt.closed:
            assert files_of(fmt.name), fmt.name


ROW = {"source": "s", "kind": "kernel", "name": "a", "timing": "measured", "ts": 5, "dur": 2, "stream": 7}


def events() -> Batch:
    args = {"args": '{"x":1,"y":2}', "args.typed": 3, "bytes": 10}
    return to_batch("events", [{"id": 1, **ROW, **args}, {"id": 2, **ROW, "name": "b"}, {"id": 3, **ROW, "name": "b"}])


@pytest.mark.parametrize(
    ("name", "row", "changed"),
    [
        ("swap:ts/dur", 0, {"ts": 2, "dur": 5}),
        ("unit:ns", 0, {"dur": 2000}),
        ("unit:bytes", 0, {"bytes": 10240}),
        ("count:stream", 1, {"stream": 8}),
        ("kind:kernel", 2, {"kind": "api"}),
        ("name:events", 0, {"name": "b"}),
        ("name:events", 1, {"name": "a"}),
        ("name:events", 2, {"name": "b"}),
    ],
)
def test_a_mutation_changes_what_it_says_and_nothing_else(name: str, row: int, changed: dict[str, object]) -> None:
    (batch,) = mutated([events()], name)
    assert to_rows(batch)[row] == to_rows(events())[row] | changed


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_size_of_batches_makes_no_difference(size: int) -> None:
    parts = [Batch("events", events().columns.slice(at, size)) for at in range(0, 3, size)]
    links = to_batch("links", [{"id": 4, "source": "s", "link": "launch", "key": "1", "role": "start"}])
    for name in MUTATIONS:
        whole = [row for batch in mutated([events(), links], name) for row in to_rows(batch)]
        assert [row for batch in mutated([*parts, links], name) for row in to_rows(batch)] == whole


def test_a_row_is_lost_once_and_arguments_everywhere() -> None:
    assert [len(batch) for batch in mutated([events(), events()], "drop-row:events")] == [3, 2]
    assert [len(batch) for batch in mutated([events(), events()], "drop-row:links")] == [3, 3]
    for batch in mutated([events(), events()], "args"):
        assert "args.typed" not in batch.columns.schema.names
        (untyped,) = mutated([batch], "args")
        assert to_rows(untyped)[0]["args"] == '{"x": 1}'


def test_the_catalog_and_columns_that_are_not_there_stay_as_they_are() -> None:
    fact = to_batch("catalog", [{"entity": "device", "source": "s", "id": 1, "name": "GPU", "device": 0}])
    bare = Batch("events", pa.RecordBatch.from_pylist([{"source": "s", "id": 1}]))
    words = to_batch("events", [{"id": 1, **ROW, "kind": "api"}, {"id": 2, **ROW}])
    assert BATCHES["kind:op"](words) is None
    for name in MUTATIONS:
        assert [*mutated([fact], name)] == [fact]
        assert [len(batch) for batch in mutated([bare], name)] == [0 if name == "drop-row:events" else 1]
