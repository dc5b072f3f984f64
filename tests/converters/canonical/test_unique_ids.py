"""A row of a canonical file that repeats an id of its source is reported and left out, in every form."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ktrace
from ktrace.kit.canonical.unique_ids import MOST_RANGES, _Known, with_unique_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch
from ktrace.report import Report
from ktrace.stages.select.wanted import Crop


def event(number: int, source: str = "run", **columns: object) -> dict[str, object]:
    return {"source": source, "id": number, "kind": "op", "name": "f", "ts": number, "timing": "measured"} | columns


def left(*batches: Batch) -> tuple[list[int], Report]:
    """The ids that are left of batches whose rows were counted."""
    report = Report()
    rows = sum(len(batch) for batch in batches if batch.record != "catalog")
    report.record(rows)
    report.used(rows)
    found = [row for batch in with_unique_ids(batches, report) for row in batch.column("id").to_pylist()]
    assert report.balanced()
    return found, report


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet", "csv", "arrow"])
def test_every_form_leaves_the_second_row_out(form: str, tmp_path: Path) -> None:
    lines = [
        '{"ktrace":"1.0"}',
        *(
            f'{{"record":"event","source":"run","id":{number},"ts":{place},"kind":"op","name":"f","timing":"measured"}}'
            for place, number in enumerate((1, 2, 1, 3))
        ),
    ]
    path = tmp_path / "twice.jsonl"
    path.write_text("\n".join(lines) + "\n")
    if form != "jsonl":
        path = _with_twice(path, tmp_path / f"twice.{form}")
    target = tmp_path / "out.jsonl"
    report = ktrace.convert(path, target)
    assert (report.read, report.written) == (4, 3)
    [(where, _)] = report.issues["bad-record"].places
    assert where == "event 1 of run"
    assert not ktrace.validate(target).faults


def _with_twice(source: Path, path: Path) -> Path:
    """The same rows in another form. They are converted with unique ids, since reading leaves a row out."""
    unique = source.with_name("unique.jsonl")
    unique.write_text(source.read_text().replace('"id":1,"ts":2', '"id":4,"ts":2'))
    ktrace.convert(unique, path)
    if path.suffix in (".json", ".csv"):
        text = path.read_text()
        changed = text.replace('"id":4,', '"id":1,').replace('"run",4,', '"run",1,')
        assert changed != text
        path.write_text(changed)
        return path
    table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    ids = pa.array([1 if number == 4 else number for number in table.column("id").to_pylist()], pa.int64())
    table = table.set_column(table.schema.get_field_index("id"), table.schema.field("id"), ids)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path


def test_a_crop_that_reads_parquet_twice_reports_the_row_once(tmp_path: Path) -> None:
    rows = [event(number) | {"ts": 1_000_000 * number, "dur": 5} for number in (1, 2, 3)]
    path = tmp_path / "run.parquet"
    table = pa.Table.from_batches([to_batch("events", [*rows, rows[1]]).columns])
    pq.write_table(table.replace_schema_metadata({"ktrace.version": "1.0"}), path)
    for interval, written in (("0ms..", 3), ("1ms..1.5ms", 1), ("2ms..", 1)):
        report = ktrace.convert(path, tmp_path / "out.jsonl", crop=Crop(interval), overwrite=True)
        assert (report.read, report.written, report.issues["bad-record"].rows) == (4, written, 1)


def test_ids_are_compared_within_a_source_and_across_records_and_batches() -> None:
    rows = [event(1), event(1, "other"), event(2), event(1)]
    link = {"source": "run", "id": 2, "link": "launch", "key": "5", "role": "from"}
    summary = {"source": "other", "id": 2, "kind": "op", "name": "f", "metric": "duration"}
    catalog = {"source": "run", "id": 1, "entity": "source"}
    found, report = left(
        to_batch("events", rows),
        to_batch("links", [link, link | {"id": 3}]),
        to_batch("summaries", [summary]),
        to_batch("catalog", [catalog, catalog]),
    )
    assert found == [1, 1, 2, 3, 2, 1, 1]
    assert [where for where, _ in report.issues["bad-record"].places] == ["event 1 of run", "link 2 of run"]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_know_what_a_set_knows(seed: int) -> None:
    rng = Random(seed)
    known, numbers = _Known(), set[int]()
    for _ in range(60):
        ids = [rng.randrange(rng.choice((10, 300, 2**63 - 1))) for _ in range(rng.randrange(1, 12))]
        ids = sorted(ids) if rng.random() < 0.5 else ids
        expected = []
        for number in ids:
            expected.append(number in numbers)
            numbers.add(number)
        assert known.again(np.array(ids, np.int64)).tolist() == expected


def test_ids_that_count_up_take_no_memory_and_scattered_ones_a_bound() -> None:
    known = _Known()
    for first in range(0, 1_000_000, 50_000):
        for step in (0, 1):  # events have the even ids, links the others
            assert not known.again(np.arange(first + step, first + 50_000, 2)).any()
    assert [len(first) for first, _ in known._lists] == [1]
    for first in range(0, 4 * MOST_RANGES, MOST_RANGES // 2):
        known.again(2_000_000 + 2 * np.arange(first, first + MOST_RANGES // 2))
    assert sum(len(first) for first, _ in known._lists) <= 2 * MOST_RANGES
