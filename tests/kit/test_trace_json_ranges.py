"""Several processes read a list as one does, whatever is guessed wrong; nothing of them stays."""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nightly import few
from test_trace_json import kineto

from ktrace.conversion import Conversion
from ktrace.errors import InputError, StrictFailure
from ktrace.input.source import Source
from ktrace.kit.trace_json import chunks, document
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events, Member, RowsOf
from ktrace.model.batch import Batch
from ktrace.report import Report

pytestmark = [pytest.mark.forks, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")]


def rows(events: Events, conversion: Conversion) -> Iterator[Batch]:
    """A row an event: its id, its name, its args as the columns that they are."""
    conversion.report.used(len(events))
    wanted = {key: column for key, column in events.columns.items() if key == "name" or key.startswith("args.")}
    pids = pa.array([os.getpid()] * len(events))
    columns = {"id": pa.array(events.at), "process": pids} | wanted
    yield Batch("events", pa.RecordBatch.from_arrays(list(columns.values()), list(columns)))


def member(found: Member, conversion: Conversion) -> Iterable[Batch]:
    column = pa.array([f"{found.key}={found.text.decode()}"])
    yield Batch("catalog", pa.RecordBatch.from_arrays([column], ["value"]))


def read(path: Path, jobs: int, *, strict: bool = False, rows: RowsOf = rows) -> tuple[list[Any], Report, set[int]]:
    """The rows in their order, the report, the processes that took part."""
    report = Report(strict=strict)
    found: list[Any] = []
    processes: set[int] = set()
    for batch in read_document(Source(str(path)), Conversion(report, jobs=jobs), rows, member):
        for row in batch.columns.to_pylist():
            processes.add(row.pop("process", 0))
            found.append({key: value for key, value in row.items() if value is not None})
    assert report.balanced()
    return found, report, processes - {0}


def in_order(found: list[Any]) -> list[Any]:
    return sorted(found, key=lambda row: row.get("id", -1))


def account(report: Report) -> Any:
    return (
        report.reader.taken,
        report.reader.given,
        Counter(report.reader.removed),
        {kind: (issue.rows, issue.places) for kind, issue in report.issues.items()},
    )


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Small chunks and ranges; afterwards no child and no file is left."""
    monkeypatch.setattr(document, "CHUNK", 700)
    monkeypatch.setattr(chunks, "RANGE", 2100)
    monkeypatch.setattr(chunks, "FIRST", 700)
    monkeypatch.setattr(document, "LEAST", 1000)
    monkeypatch.setattr(document, "LEAST_STORED", 500)
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def text_of(events: list[str]) -> str:
    return f'{{"a": 1, "traceEvents": [{", ".join(events)}], "b": [2]}}'


def damaged(events: list[str]) -> list[str]:
    """Some events with damage of each sort, among them such that swallow boundaries."""
    events = list(events)
    for number in range(3, len(events), 17):
        events[number] = events[number].replace('"dur":1.5', '"dur":nan')
    events[40] = events[40].replace('"name":"', '"name":"x"y')
    events[60] = events[60][:-40]
    events[90] = '{"ph":"X","args":{"many":[' + ",".join(['{"x":1}'] * 2000) + "]}}"
    events[120] = "{}"
    events[130] = "what is this"
    return events


@pytest.mark.parametrize(
    "text", few([text_of(damaged(kineto(400))), text_of(kineto(300))[:-2000], text_of(kineto(400))], 2)
)
def test_any_number_of_processes_reads_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    alone, report, processes = read(path, 1)
    assert processes == {os.getpid()}
    for jobs in (2, 3):
        found, other, _ = read(path, jobs)
        assert in_order(found) == in_order(alone)
        assert account(other) == account(report)
        assert [row["id"] for row in found if "id" in row][-1] > 0


def test_compressed_input_is_read_by_several_processes_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text_of(kineto(400)).encode()))
    assert in_order(read(path, 3)[0]) == in_order(read(path, 1)[0])


def test_ranges_come_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of([f'{{"ph":"R","name":"n{number}"}}' for number in range(3000)]))
    caller = os.getpid()

    def slow_here(events: Iterable[Events], conversion: Conversion) -> Iterator[Batch]:
        for batch in rows(events, conversion):
            time.sleep(0.02 * (os.getpid() == caller))
            yield batch

    found, _, processes = read(path, 3, rows=slow_here)
    assert len(processes) > 1, "nobody helped"
    ids = [row["id"] for row in found if "id" in row]
    assert len(ids) == 3000
    assert ids == sorted(ids)


def test_strict_refuses_what_a_child_found(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(damaged(kineto(400))))
    with pytest.raises(StrictFailure, match="byte"):
        read(path, 2, strict=True)


@pytest.mark.parametrize(
    "error", [InputError("no more", path="x", remedy="stop"), ValueError("odd"), KeyboardInterrupt()]
)
def test_an_error_in_any_process_reaches_the_caller(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(kineto(400)))
    caller = os.getpid()

    def failing(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows(events, conversion):
            if os.getpid() != caller:
                raise error
            yield batch

    with pytest.raises(type(error)):
        list(read_document(Source(str(path)), Conversion(Report(), jobs=3), failing, member))


def test_who_stops_early_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(kineto(400)))
    batches = read_document(Source(str(path)), Conversion(Report(), jobs=3), rows, member)
    for _ in range(4):
        next(batches)
    batches.close()  # type: ignore[attr-defined]
