"""What every format promises (DESIGN.md, "A format"), checked on every sample of every format."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from conftest import SAMPLES
from wire import repeats

from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.format import builtin_formats
from ktrace.input.source import Source
from ktrace.model.batch import RECORDS
from ktrace.pipeline.convert import convert
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

READERS = [fmt for fmt in builtin_formats() if fmt.reads and not fmt.closed]
SAMPLE_FILES = [
    pytest.param(fmt.name, path, id=f"{fmt.name}/{path.name}")
    for fmt in READERS
    for path in sorted((SAMPLES / fmt.name).glob("*"))
]
TABLES = [fmt for fmt in builtin_formats() if fmt.writes and not fmt.timeline]
TIMELINES = [fmt for fmt in builtin_formats() if fmt.timeline]

#: Formats of which a long file is the same text many times over.
REPEATABLE = {
    "ncu",
    "nvprof",
    "rocprof",
    "doppler",
    "metallic",
    "metallic-jsonl",
    "mlc",
    "webllm",
    "nsys-stats",
    "table",
    "torch-table",
}


def read(path: Path, *, name: str | None = None, batch_rows: int = 65_536) -> Trace:
    report = Report()
    return Trace(read_batches([str(path)], report, format=name, batch_rows=batch_rows), report)


@pytest.mark.parametrize("fmt", READERS, ids=lambda fmt: fmt.name)
def test_a_format_has_samples_and_a_docs_page(fmt: object) -> None:
    name = fmt.name  # type: ignore[attr-defined]
    assert list((SAMPLES / name).glob("*")), f"no sample in samples/{name}/"
    assert (SAMPLES.parent / "docs" / "formats" / f"{name}.md").exists(), f"no page docs/formats/{name}.md"


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_a_sample_is_recognised_as_what_it_is(name: str, path: Path) -> None:
    assert choose(Source(str(path))).name == name


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_the_size_of_batches_makes_no_difference(name: str, path: Path) -> None:
    whole = read(path, name=name)
    assert sum(table.num_rows for table in whole.to_arrow().values()) > 1
    for batch_rows in (1, 7):
        assert read(path, name=name, batch_rows=batch_rows).equals(whole)
    assert read(path, name=name).equals(whole)


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_ids_are_unique_and_parents_exist(name: str, path: Path) -> None:
    tables = read(path, name=name).to_arrow()
    keys = [
        (source, number)
        for record in RECORDS[:3]
        for source, number in zip(tables[record]["source"].to_pylist(), tables[record]["id"].to_pylist(), strict=True)
    ]
    assert len(keys) == len(set(keys))
    for record in RECORDS[:3]:
        table = tables[record]
        parents = zip(table["source"].to_pylist(), table["parent"].to_pylist(), strict=True)
        assert {parent for parent in parents if parent[1] is not None} <= set(keys)


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_accounts_add_up_in_every_output(name: str, path: Path, tmp_path: Path) -> None:
    rows = sum(read(path, name=name).report.rows[record] for record in ("events", "summaries", "links"))
    for fmt in TABLES:
        report = convert(path, tmp_path / f"out.{fmt.name}", from_=name, to=fmt.name)
        assert report.balanced()
        assert report.written + sum(ledger.removed.total() for ledger in report.stages) == rows
    for fmt in TIMELINES:
        report = convert(path, tmp_path / f"out.{fmt.name}", from_=name, to=fmt.name)
        assert report.balanced()
        drawn, removed = report.written, sum(ledger.removed.total() for ledger in report.stages)
        assert drawn + removed == rows
        assert drawn > 0
        if fmt.name == "perfetto":
            assert repeats((tmp_path / "out.perfetto").read_bytes()) == []


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_a_cut_file_gives_its_whole_part_or_a_clear_error(name: str, path: Path, tmp_path: Path) -> None:
    if path.is_dir():
        pytest.skip("a folder isn't cut")
    data = path.read_bytes()
    whole = sum(read(path, name=name).report.rows.values())
    cut = tmp_path / path.name
    outcomes = set()
    for size in sorted({*range(1, len(data), max(1, len(data) // 97)), len(data) - 1}):
        cut.write_bytes(data[:size])
        for forced in (name, None):
            try:
                part = read(cut, name=forced)
            except KtraceError as error:
                assert error.path == str(cut), error
                outcomes.add("error")
            else:
                assert part.report.reader.balanced()
                if forced:
                    assert sum(part.report.rows.values()) <= whole
                outcomes.add("part")
    assert outcomes


@pytest.mark.parametrize(("name", "path"), [param for param in SAMPLE_FILES if param.values[0] in REPEATABLE])
def test_memory_does_not_grow_with_the_file(name: str, path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    if data[:2] in (b"\x1f\x8b", b"\x28\xb5", b"\xff\xfe"):
        pytest.skip("compressed or not UTF-8: not the same text many times over")
    data = data if data.endswith(b"\n") else data + b"\n"
    peaks = []
    for times in (40, 40, 400):  # the first time imports and fills caches
        long = tmp_path / f"{times}{path.suffix}"
        long.write_bytes(data * (1 + times * 2000 // max(2000, len(data))))
        tracemalloc.start()
        for _ in read_batches([str(long)], Report(), format=name, batch_rows=64):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.5 + 500_000, peaks
