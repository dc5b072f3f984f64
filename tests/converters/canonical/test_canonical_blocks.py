"""Records that are read in blocks equal those read one by one, and so does the report."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ktrace.kit.canonical import record_forms
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

#: Lines that don't match the model, or aren't records at all.
ODD = [
    b'{"record":"event","source":"run","id":7,"ts":"soon","kind":"op","name":"x","timing":"measured"}',
    b'{"record":"event","source":"run","id":8,"ts":1,"kind":"weird","name":"x","timing":"measured","dur":1}',
    b'{"record":"event","source":"run","id":9,"ts":1,"kind":"op","name":"x","timing":"measured","colour":"red"}',
    b'{"record":"event","source":"run","id":9,"ts":1.0,"kind":"op","name":"x","timing":"measured","x_own":3}',
    b'{"record":"event","source":"run","id":10,"ts":1,"kind":"op","name":"x","timing":"measured","args":[1]}',
    b'{"record":"event","source":"run","id":11,"ts":1,"kind":"op","name":"caf\xe9","timing":"measured"}',
    b'{"record":"thing","source":"run","id":12}',
    b'{"ktrace":"1.0"}',
    b"",
    b"no JSON",
]


def record(number: int, chance: random.Random) -> dict[str, Any]:
    """A record of any kind that matches the model."""
    row: dict[str, Any] = {"source": chance.choice(["run", "lauf"]), "id": number}
    kind = chance.choice(["event"] * 6 + ["summary", "link", "catalog"])
    if kind == "event":
        row |= {
            "ts": number * 10,
            "kind": chance.choice(["op", "kernel"]),
            "name": f"n{number % 5}é",
            "timing": "measured",
        }
        row |= {"dur": 5} if chance.random() < 0.5 else {"correlation": None}
        row |= {"occupancy": chance.choice([1.5, 3, "NaN", "Infinity"])} if chance.random() < 0.3 else {}
        row |= {"args": chance.choice([{"a": [1, {"b": 2}]}, {}, None])} if chance.random() < 0.5 else {}
    elif kind == "summary":
        row |= {"kind": "metric", "name": "m", "metric": "duration", "total": 1.25, "scope": ["a", "b"]}
    elif kind == "link":
        row |= {"link": "flow", "key": str(number), "role": "out", "event": number - 1}
    else:
        row |= {"entity": "process", "pid": number % 3, "name": "p", "facts": {"n": number}}
    return {"record": kind} | row


def lines(count: int, odd: int, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    made = [json.dumps(record(number, chance), ensure_ascii=False).encode() for number in range(1, count + 1)]
    for number in range(odd):
        line = re.sub(rb'"id":[0-9]+', b'"id":%d' % (count + number + 1), chance.choice(ODD))
        made.insert(chance.randrange(len(made)), line)
    return made


def told(path: Path, batch_rows: int = 65_536) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The rows of each record, the catalog apart, and the account."""
    report = Report()
    rows: dict[str, list[Any]] = {}
    batches: list[Batch] = list(read_batches([str(path)], report, batch_rows=batch_rows))
    for batch in batches:
        assert len(batch) <= batch_rows
        # As text, since NaN isn't equal to itself.
        found = [repr({key: value for key, value in row.items() if value is not None}) for row in to_rows(batch)]
        rows.setdefault(batch.record, []).extend(found)
    account = report.to_dict()
    for issue in account["issues"]:
        issue["places"].sort(key=str)
    return rows, account


@pytest.mark.parametrize("form", ["jsonl", "json"])
@pytest.mark.parametrize(("odd", "ends"), [(0, b"\n"), (3, b"\n"), (40, b"\n"), (0, b"")], ids=str)
def test_blocks_equal_single_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, odd: int, ends: bytes
) -> None:
    made = lines(2500, odd, odd + len(form))
    path = tmp_path / f"run.{form}"
    if form == "jsonl":
        path.write_bytes(b'{"ktrace":"1.0"}\n' + b"\n".join(made) + ends)
    else:
        path.write_bytes(b'{"ktrace":"1.0","records":[\n' + b",\n".join(made) + b"\n" + (b"]}" + ends if ends else b""))
    monkeypatch.setattr(record_forms, "FEW_LINES", 10**9)
    expected = told(path)
    assert sum(map(len, expected[0].values())) > 2400
    for few, chunk, batch_rows in ((1, 1 << 20, 65_536), (1, 5000, 65_536), (20, 20_000, 300), (1, 3000, 7)):
        monkeypatch.setattr(record_forms, "FEW_LINES", few)
        monkeypatch.setattr(record_forms, "CHUNK", chunk)
        assert told(path, batch_rows) == expected


def test_whole_blocks_are_decoded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"ktrace":"1.0"}\n' + b"\n".join(lines(3000, 0, 1)) + b"\n")
    one_by_one: list[int] = []
    original = record_forms._Lines.one_by_one
    monkeypatch.setattr(
        record_forms._Lines, "one_by_one", lambda self, block: one_by_one.append(block.count) or original(self, block)
    )
    told(path)
    assert one_by_one == [1], "the header alone"
