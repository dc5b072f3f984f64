"""The canonical formats read back equal rows: jsonl, json, parquet (file and folder), csv."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from canonical import batches
from hypothesis import HealthCheck, given, settings
from nightly import examples

from ktrace.input.detection import by_name
from ktrace.input.format import Score
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.pipeline.read import read_batches
from ktrace.pipeline.validate import Validation, validate
from ktrace.report import Report
from ktrace.trace.trace import Trace

#: Format name -> names of outputs.
OUTPUTS = {
    "jsonl": ["run.jsonl", "run.jsonl.gz", "run.jsonl.zst"],
    "json": ["run.json", "run.json.gz"],
    "parquet": ["run.parquet", "folder/", "run.parquet.zst"],
    "csv": ["run.csv", "run.csv.gz"],
}
FILES = [pytest.param(name, file, id=file) for name, files in OUTPUTS.items() for file in files]


def read(path: Path, name: str, batch_rows: int = 65_536) -> Trace:
    report = Report(strict=True)
    trace = Trace(read_batches([str(path)], report, format=name, batch_rows=batch_rows), report)
    assert report.balanced()
    return trace


@pytest.mark.parametrize(("name", "file"), FILES)
@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=batches())
def test_what_is_written_comes_back_equal(name: str, file: str, found: list[Batch]) -> None:
    trace = Trace(found)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / file
        report = trace.write(f"{folder}/{file}", to=name)
        assert report.written == sum(len(batch) for batch in found if batch.record != "catalog")
        match = by_name(name).recognised(Source(str(out)).sample())
        assert match and match.score >= Score.SHAPE
        assert validate(str(out)) == Validation([], sum(map(len, trace.to_arrow().values())), "1.0")
        for batch_rows in (1, 7, 65_536):
            again = read(out, name, batch_rows)
            assert again.equals(trace)
            assert not again.report.issues
