"""Execution traces of PyTorch: operators counted by their arguments, in both layouts, and damaged ones."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bad_values import DEEP
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput, StrictFailure
from ktrace.input.detection import choose
from ktrace.input.source import Source

QUOTES = SAMPLES / "execution-trace" / "quotes-in-a-name-collectives-triton.json"
FLAT = SAMPLES / "execution-trace" / "flat-nodes-of-2022.json"
MADE = SHARED / "corpus" / "made" / "pytorch_single" / "execution_trace.json"


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = ktrace.read(path, from_="execution-trace").to_arrow()["summaries"].to_pylist()
    return [row | {"args": json.loads(row["args"] or "{}")} for row in rows]


def node(number: int, name: str = "aten::mm", shape: str = "[2,3]") -> str:
    values = f'"inputs": {{"values": [1], "shapes": [{shape}], "types": ["Tensor(float)"]}}'
    attrs = f'"attrs": [{{"name": "rf_id", "type": "uint64", "value": {number}}}]'
    return f'{{"id": {number + 1}, "name": "{name}", "ctrl_deps": 1, {values}, "outputs": {{}}, {attrs}}}'


def trace(*nodes: str, end: str = '], "finish_ts": 9}') -> str:
    return '{"schema": "1.0.4-chakra.0.0.4", "pid": 7, "nodes": [\n' + ",\n".join(nodes) + end


def test_operators_with_the_same_arguments_are_one_row_with_their_number() -> None:
    rows = rows_of(QUOTES)
    assert [(row["name"], row["kind"], row["count"], row["value"]) for row in rows] == [
        ("aten::mm", "op", 2, 2.0),
        ("aten::add", "op", 1, 1.0),
        ('forward of "block 1"', "range", 1, 1.0),
        ("triton_poi_fused_relu_0", "op", 1, 1.0),
        ("autograd::engine::evaluate_function: MmBackward0", "op", 1, 1.0),
        ("MmBackward0", "op", 1, 1.0),
        ("record_param_comms", "op", 2, 2.0),
    ]
    assert {row["pid"] for row in rows} == {4100}
    assert {(row["metric"], row["unit"]) for row in rows} == {("count", "count")}
    assert rows[0]["args"]["inputs.shapes"] == [[4, 8], [8, 2]]
    assert rows[0]["args"]["inputs.types"] == ["Tensor(float)", "Tensor(float)"]
    assert rows[3]["args"]["kernel_backend"] == "triton"
    assert (rows[6]["comm"], rows[6]["args"]["in_msg_nelems"]) == ("0", 16)


def test_the_flat_layout_has_the_same_rows() -> None:
    found = [(row["name"], row["kind"], row["count"], row["args"].get("inputs.shapes")) for row in rows_of(FLAT)]
    assert found == [
        ("aten::view", "op", 1, [[4, 8], [[], []]]),
        ("aten::reshape", "op", 1, [[4, 8], [[], []]]),
        ("aten::dropout", "op", 1, [[4, 8], [], []]),
        ("aten::view", "op", 1, [[2, 16], [[], []]]),
        ("[param|run]", "range", 1, None),
    ]


def test_quotes_in_a_name_are_a_repair(tmp_path: Path) -> None:
    report = ktrace.read(QUOTES).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"json-repair": 1}
    with pytest.raises(StrictFailure, match="a quote within a text"):
        ktrace.convert(QUOTES, tmp_path / "x.csv", strict=True)


def test_a_summary_counts_operators() -> None:
    summary = ktrace.summary(QUOTES, by=["kernel"])
    assert (summary.unit, summary.total, summary.count) == ("count", 8.0, 8)  # without the range
    assert {group.key: group.total for group in summary.groups["kernel"]}["record_param_comms"] == 2
    by_name = {table.name: table for table in summary.tables()}["kernel"]
    assert [column.name for column in by_name.columns][:3] == ["kernel", "count", "share"]
    assert "The source has only counts, no times." in summary.notes


def test_big_documents_and_their_gzip_are_read_in_chunks(tmp_path: Path) -> None:
    """3,000 nodes are several chunks; one of them in the middle is damaged."""
    nodes = [node(number, shape=f"[{number % 7},3]") for number in range(1, 3_001)]
    nodes[1500] = node(1501, name='a "quoted" name')
    nodes[2000] = node(2001).replace('"ctrl_deps": 1', '"ctrl_deps": {1')
    path = tmp_path / "et.json.gz"
    path.write_bytes(gzip.compress(trace(*nodes).encode()))
    rows = rows_of(path)
    assert sum(row["count"] for row in rows) == 2_999
    counts = Counter(f"[{number % 7}, 3]" for number in range(1, 3_001) if number not in (1501, 2001))
    assert {str(row["args"]["inputs.shapes"][0]): row["count"] for row in rows if row["name"] == "aten::mm"} == counts
    report = ktrace.read(path).report
    assert report.reader.taken == 3_000
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"json-repair": 1, "bad-record": 1}


@pytest.mark.parametrize("end", ['], "finish_ts": 9}', "]}", '], "schema": "1.1.1", "start_ts": 4}\n'])
def test_quotes_in_the_name_of_the_last_node(tmp_path: Path, end: str) -> None:
    """Objects in a list are inside it, too: its attributes."""
    path = tmp_path / "et.json"
    path.write_text(trace(node(1), node(2, name='the "last"'), end=end))
    assert [(row["name"], row["count"]) for row in rows_of(path)] == [("aten::mm", 1), ('the "last"', 1)]
    assert list(ktrace.read(path).report.issues) == ["json-repair"]


def test_a_cut_document_gives_its_whole_nodes(tmp_path: Path) -> None:
    path = tmp_path / "et.json"
    path.write_text(trace(node(1), node(2), node(3)[:50], end=""))
    read = ktrace.read(path)
    assert read.summaries["count"].tolist() == [2]
    assert read.report.issues["cut"].rows == 1


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (node(1).replace('"id": 2', '"id": "two"'), 2),
        (node(1).replace('"name": "aten::mm"', '"name": 5'), 2),
        (node(1).replace('"outputs": {}', '"outputs": {"values": ]}'), 2),
        ("17", 2),
        (node(1).replace("[1]", DEEP), 2),
        (node(1).replace('"id": 2', f'"id": {"9" * 400}'), 2),
        ("[" * 5000, 1),  # what follows is inside it
    ],
)
def test_a_wrong_node_is_reported_and_the_others_are_read(tmp_path: Path, text: str, others: int) -> None:
    path = tmp_path / "et.json"
    path.write_text(trace(node(4), text, node(5)))
    read = ktrace.read(path, from_="execution-trace")
    assert read.report.issues["bad-record"].rows == 1
    assert read.report.reader.balanced()
    assert sum(read.summaries["count"]) == others


@pytest.mark.parametrize("text", ["[]", "{}", '{"nodes": 5}', '{"schema": "1.0.1", "pid": ', "null"])
def test_another_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "et.json"
    path.write_text(text)
    with pytest.raises(DamagedInput) as caught:
        ktrace.read(path, from_="execution-trace")
    assert caught.value.remedy


def test_members_may_have_another_order(tmp_path: Path) -> None:
    """As tools write that sort the keys."""
    path = tmp_path / "sorted.json"
    document = json.loads(trace(node(1), node(2)))
    path.write_text(json.dumps(document, sort_keys=True, indent=1))
    assert choose(Source(str(path))).name == "execution-trace"
    assert [(row["count"], row["pid"]) for row in rows_of(path)] == [(2, 7)]


def test_more_combinations_than_are_kept_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.execution_trace.reader._MOST", 2)
    assert sum(row["count"] for row in rows_of(QUOTES)) == 9


@pytest.mark.skipif(not MADE.exists(), reason="the real files are not at hand (../shared/corpus)")
def test_the_nodes_of_a_real_file_are_all_counted(tmp_path: Path) -> None:
    """Counted here from the plain JSON: INDEX.tsv has 214 nodes, 182 with a schema."""
    document = json.loads(MADE.read_text("utf-8"))
    attributes = [{one["name"]: one["value"] for one in found["attrs"]} for found in document["nodes"]]
    assert (len(attributes), sum(bool(one["op_schema"]) for one in attributes)) == (214, 182)
    expected: Counter[tuple[str, str]] = Counter()
    for found, one in zip(document["nodes"], attributes, strict=True):
        if one["rf_id"]:  # the nodes of process and threads have none
            expected[found["name"], json.dumps(found["inputs"]["shapes"])] += 1
    counted: Counter[tuple[str, str]] = Counter()
    for row in rows_of(MADE):
        counted[row["name"], json.dumps(row["args"].get("inputs.shapes", []))] += row["count"]
    assert counted == expected
    with_schema = sum(row["count"] for row in rows_of(MADE) if "op_schema" in row["args"])
    assert (counted.total(), with_schema) == (212, 182)
    shutil.copy(MADE, tmp_path / "renamed.txt")
    assert choose(Source(str(tmp_path / "renamed.txt"))).name == "execution-trace"


@pytest.mark.parametrize(
    ("bad", "kind"), [(b"\xff", "encoding"), (b"\\ud800", "json-repair")], ids=["bytes", "surrogate"]
)
def test_an_attribute_that_is_no_text_is_replaced(tmp_path: Path, bad: bytes, kind: str) -> None:
    path = tmp_path / "trace.json"
    odd = node(2).replace('"attrs": [', '"attrs": [{"name": "pg_name", "type": "string", "value": "odd"}, ')
    path.write_bytes(trace(node(1), odd, node(3)).encode().replace(b'"odd"', b'"' + bad + b'"'))
    found = ktrace.read(path, from_="execution-trace")
    rows = found.to_arrow()["summaries"].to_pylist()
    assert {name: issue.rows for name, issue in found.report.issues.items()} == {kind: 1}
    assert [(row["count"], row["comm"]) for row in rows] == [(2, None), (1, "\ufffd")]
