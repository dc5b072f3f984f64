"""Records whose fields are objects or lists: faults with their places, never an exception."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktrace.model.batch import arrow_schema
from ktrace.pipeline.validate import validate

_EVENT = {"record": "event", "source": "a", "id": 1, "kind": "op", "name": "n", "ts": 0, "timing": "measured"}


@pytest.mark.parametrize("odd", [{"a": 1}, {}, [], [{}], None, True, 1.5, "x" * 1000], ids=str)
def test_any_field_of_any_type(tmp_path: Path, odd: object) -> None:
    fields = sorted({"record", *arrow_schema("events").names})
    lines = [json.dumps(_EVENT | {"id": number, field: odd}) for number, field in enumerate(fields, 10)]
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(['{"ktrace": "1.0"}', json.dumps(_EVENT), *lines]) + "\n", "utf-8")
    found = validate(path, limit=1000)
    wrong = {fault.record for fault in found.faults}
    assert found.checked == len(lines) + 1
    assert 1 not in wrong and 2 + fields.index("record") in wrong


def test_a_header_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"ktrace": {"a": 1}}\n' + json.dumps(_EVENT) + "\n", "utf-8")
    assert [fault.path for fault in validate(path).faults] == ["$.ktrace"]
