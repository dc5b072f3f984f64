"""What other programs may rely on: the ids of the schemas, the rule of change, the examples of docs/schema.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES
from jsonschema import Draft202012Validator

import ktrace
from ktrace.model.batch import VERSION
from ktrace.model.schema import RECORDS, WORD, fields, json_schema
from ktrace.pipeline.validate import validate
from ktrace.tables.text import VERSION as ANSWERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/schema.md").read_text("utf-8")
EXAMPLES = ROOT / "schema/examples"

#: Each version of the model -> its columns: the type of each, whether it is required, and the words allowed in it.
VERSIONS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in (Path(__file__).parent / "versions").glob("*.json")
}

#: The rows of the page's table: an invalid example, and the place of its fault.
FAULTS = dict(re.findall(r"^\| `([\w-]+\.jsonl)` \| `(\$[.\w]*)` \|", PAGE, re.MULTILINE))


def columns() -> dict[str, dict[str, Any]]:
    """The columns of the schema as a file of tests/model/versions has them."""
    required = {word: json_schema()["$defs"][word]["required"] for word in WORD.values()}
    return {
        WORD[record]: {
            name: ({"words": spec["enum"]} if "enum" in spec else {})
            | {"type": spec["x-arrow"], "required": name in required[WORD[record]]}
            for name, spec in fields(record).items()
        }
        for record in RECORDS
    }


def test_the_id_names_the_version() -> None:
    answers = json.loads((ROOT / "schema/answers-1.schema.json").read_text("utf-8"))
    ids = [json_schema()["$id"], answers["$id"]]
    assert ids == [
        f"https://ktrace.readthedocs.io/schema/{name}.json" for name in (f"model-{VERSION}", f"answers-{ANSWERS}")
    ]
    assert all(f"`{one}`" in PAGE for one in ids)


def test_another_set_of_columns_is_another_version() -> None:
    """A new column, kind or type of link takes a new version: its file in tests/model/versions, its row of the page."""
    assert VERSIONS[VERSION] == columns()
    assert all(re.search(rf"^\| {version} \|", PAGE, re.MULTILINE) for version in VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_had_stays(version: str) -> None:
    now = columns()
    for word, had in VERSIONS[version].items():
        for name, column in had.items():
            kept = now[word][name]
            assert (kept["type"], kept["required"]) == (column["type"], column["required"]), name
            words, before = set(kept.get("words", ())), set(column.get("words", ()))
            assert words >= before if name in ("kind", "link") else words == before, name
        assert not [name for name, column in now[word].items() if column["required"] and name not in had]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "valid").iterdir()), ids=lambda path: path.stem)
def test_valid_examples_are_valid_and_are_read(path: Path, tmp_path: Path) -> None:
    schema = Draft202012Validator(json_schema())
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [error.message for row in rows for error in schema.iter_errors(row)] == []
    result = validate(str(path))
    assert (result.faults, result.checked) == ([], len(rows) - 1)
    report = ktrace.convert(str(path), str(tmp_path / "out.parquet"))
    assert report.balanced()
    assert not report.issues or {issue.kind for issue in report.issues} <= {"unknown-column"}


def test_every_invalid_example_is_on_the_page() -> None:
    assert set(FAULTS) == {path.name for path in (EXAMPLES / "invalid").iterdir()}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_invalid_examples_have_the_fault_that_the_page_says(name: str) -> None:
    path = EXAMPLES / "invalid" / name
    faults = validate(str(path)).faults
    assert [fault.path for fault in faults] == [FAULTS[name]]
    if name in ("same-id-twice.jsonl", "bare-nan.jsonl"):
        return  # no schema sees more than one row, and Python's json takes NaN
    schema = Draft202012Validator(json_schema())
    assert any(not schema.is_valid(json.loads(line)) for line in path.read_text("utf-8").splitlines())


def test_parquet_states_the_version_as_the_page_says(tmp_path: Path) -> None:
    """The footer's keys are read by pyarrow alone; each is a row of the page's table."""
    out = tmp_path / "all.parquet"
    ktrace.convert(str(SAMPLES / "jsonl/all-records.jsonl"), str(out))
    footer = pq.read_metadata(out).metadata
    assert footer[b"ktrace.version"] == VERSION.encode()
    one_table = tmp_path / "events.parquet"
    ktrace.convert(str(SAMPLES / "jsonl/all-records.jsonl"), str(one_table), table="events")
    keys = {
        key.decode()
        for file in (out, one_table)
        for key in pq.read_metadata(file).metadata
        if key.startswith(b"ktrace.")
    }
    assert keys == set(re.findall(r"^\| `(ktrace\.\w+)` \|", PAGE, re.MULTILINE))
