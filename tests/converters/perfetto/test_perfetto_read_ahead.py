"""A child that reads ahead."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from perfetto_samples import FOLDER

from ktrace.errors import DamagedInput, KtraceError, StrictFailure
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_rows
from ktrace.parallel.threads import WriteBehind
from ktrace.pipeline.read import read_batches
from ktrace.report import Report


def test_a_child_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto import reader

    (path,) = FOLDER.glob("clocks-*")
    told = []
    for large in (1 << 40, 0):
        monkeypatch.setattr(reader, "_LARGE", large)
        report = Report()
        rows = [
            (batch.record, row)
            for batch in read_batches([str(path)], report, jobs=2, batch_rows=3)
            for row in to_rows(batch)
        ]
        told.append((rows, report.to_dict()))
    assert told[0] == told[1]
    assert told[0][1]["skipped"] == 1
    strict = read_batches([str(path)], Report(strict=True), jobs=2)
    with pytest.raises(StrictFailure, match="never began"):
        list(strict)
    text = tmp_path / "text.pftrace"
    text.write_text("no trace")
    with pytest.raises(DamagedInput) as failed:
        list(read_batches([str(text)], Report(), format="perfetto", jobs=2))
    assert failed.value.path == str(text)


@pytest.mark.forks
def test_a_child_ends_when_its_parent_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto import reader

    monkeypatch.setattr(reader, "_LARGE", 0)
    (path,) = FOLDER.glob("clocks-*")
    batches = read_batches([str(path)], Report(), jobs=2, batch_rows=1)
    next(batches)
    batches.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("sent", [0, 100_000])
def test_a_child_that_dies_is_an_error(sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two batches, or in the middle of one."""
    from ktrace.converters.perfetto import reader

    def die(stream: WriteBehind, batch: Batch) -> None:
        if sent:
            stream.write(pickle.dumps(bytes(1 << 20))[:sent])
        os._exit(1)

    monkeypatch.setattr(reader, "_LARGE", 0)
    monkeypatch.setattr(reader, "_send_batch", die)
    (path,) = FOLDER.glob("clocks-*")
    with pytest.raises(KtraceError, match="ended too early"):
        list(read_batches([str(path)], Report(), jobs=2))
