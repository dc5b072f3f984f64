"""Arguments of an execution trace on the rows of the same run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import InputError

NODES = SAMPLES / "execution-trace" / "quotes-in-a-name-collectives-triton.json"
FLAT = SAMPLES / "execution-trace" / "flat-nodes-of-2022.json"


def kineto(path: Path, *rows: tuple[str, int | None, int]) -> Path:
    """A trace of operators: name, record-function id, pid; 10 us each."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": pid, "ts": 100 * number, "dur": 10}
        | {"args": {"External id": number} | ({} if rf is None else {"Record function id": rf})}
        for number, (name, rf, pid) in enumerate(rows)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def converted(source: Path, nodes: Path, out: Path) -> tuple[list[dict[str, Any]], ktrace.Report]:
    report = ktrace.convert(source, out, execution_trace=nodes, overwrite=True)
    rows = ktrace.read(out).to_arrow()["events"]["args"].to_pylist()
    return [json.loads(args or "{}") for args in rows], report


def test_rows_get_the_arguments_of_the_node_with_their_id(tmp_path: Path) -> None:
    source = kineto(
        tmp_path / "k.json",
        ("aten::mm", 2, 4100),
        ("aten::mm", 3, 4100),
        ('forward of "block 1"', 1, 4100),
        ("aten::relu", 99, 4100),
        ("aten::sub", 0, 4100),
        ("aten::mul", None, 4100),
    )
    args, report = converted(source, NODES, tmp_path / "out.parquet")
    assert [one.get("et.id") for one in args] == [5, 13, 4, None, None, None]
    assert args[0]["et.parent"] == 4
    assert args[0]["et.inputs.shapes"] == [[4, 8], [8, 2]]
    assert args[0]["et.inputs.strides"] == [[8, 1], [2, 1]]
    assert args[0]["et.outputs.types"] == ["Tensor(float)"]
    assert args[0]["et.op_schema"] == "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    assert args[0]["Record function id"] == 2
    assert not any(key.startswith("et.") for one in args[3:] for key in one)
    found = {kind: issue.rows for kind, issue in report.issues.items() if kind != "json-repair"}
    assert found == {"joined-node": 3, "unmatched-node": 6, "row-without-node": 1}
    stage = next(ledger for ledger in report.stages if ledger.stage == "execution-trace")
    assert (stage.taken, stage.given, stage.added.total(), stage.removed.total()) == (6, 6, 9, 9)
    assert report.balanced()


def test_the_flat_layout_has_a_parent_too(tmp_path: Path) -> None:
    args, _ = converted(kineto(tmp_path / "k.json", ("aten::view", 3, 52)), FLAT, tmp_path / "out.parquet")
    assert (args[0]["et.id"], args[0]["et.parent"], args[0]["et.inputs.types"][0]) == (9, 8, "Tensor(float)")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("aten::addmm", 2, 4100), "another name"),
        (("aten::mm", 2, 4101), "another process"),
        (("aten::mm", None, 4100), "no row of the timeline has a record function id"),
        (("aten::mm", 77, 4100), "no row has their ids"),
    ],
)
def test_a_row_of_another_run_gets_nothing(tmp_path: Path, row: tuple[str, int | None, int], why: str) -> None:
    args, report = converted(kineto(tmp_path / "k.json", row), NODES, tmp_path / "out.parquet")
    assert not any(key.startswith("et.") for key in args[0])
    unmatched = report.issues["unmatched-node"]
    assert unmatched.rows == 9
    assert why in unmatched.places[0][1]
    assert "joined-node" not in report.issues


def test_a_trace_that_ktrace_wrote_can_get_them_later(tmp_path: Path) -> None:
    source = kineto(tmp_path / "k.json", ("aten::mm", 2, 4100), ("aten::add", 4, 4100))
    ktrace.convert(source, tmp_path / "k.parquet")
    args, report = converted(tmp_path / "k.parquet", NODES, tmp_path / "out.jsonl")
    assert [one["et.id"] for one in args] == [5, 14]
    assert report.issues["joined-node"].rows == 2


def test_an_id_that_several_nodes_have_belongs_to_none(tmp_path: Path) -> None:
    text = NODES.read_text("utf-8").replace(
        '"name": "rf_id", "type": "uint64", "value": 3}', '"name": "rf_id", "value": 2}'
    )
    (tmp_path / "et.json").write_text(text)
    source = kineto(tmp_path / "k.json", ("aten::mm", 2, 4100), ("aten::add", 4, 4100))
    args, report = converted(source, tmp_path / "et.json", tmp_path / "out.parquet")
    assert ["et.id" in one for one in args] == [False, True]
    assert report.issues["joined-node"].rows == 1


def test_a_crop_and_a_filter_keep_the_arguments(tmp_path: Path) -> None:
    source = kineto(tmp_path / "k.json", ("aten::mm", 2, 4100), ("aten::add", 4, 4100))
    ktrace.convert(
        source,
        tmp_path / "out.parquet",
        execution_trace=NODES,
        filter=ktrace.Filter(names=["*add"]),
        crop=ktrace.Crop("0..1s"),
    )
    rows = ktrace.read(tmp_path / "out.parquet").events
    assert [json.loads(args)["et.id"] for args in rows["args"]] == [14]


def test_many_rows_in_several_parts(tmp_path: Path) -> None:
    """More rows than get arguments at once, each its own."""
    count = 20_000
    nodes = [
        {"id": 2 * number, "name": f"op{number % 3}", "ctrl_deps": 1, "inputs": {}, "outputs": {}}
        | {"attrs": [{"name": "rf_id", "type": "uint64", "value": number}]}
        for number in range(1, count + 1)
    ]
    (tmp_path / "et.json").write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 4, "nodes": nodes}))
    source = kineto(tmp_path / "k.json", *((f"op{number % 3}", number, 4) for number in range(1, count + 1)))
    args, report = converted(source, tmp_path / "et.json", tmp_path / "out.parquet")
    assert [one["et.id"] for one in args] == [2 * number for number in range(1, count + 1)]
    assert report.issues["joined-node"].rows == count


def test_another_file_is_refused(tmp_path: Path) -> None:
    source = kineto(tmp_path / "k.json", ("aten::mm", 2, 4100))
    with pytest.raises(InputError, match="not an execution trace") as caught:
        ktrace.convert(source, tmp_path / "out.parquet", execution_trace=source)
    assert "ExecutionTraceObserver" in str(caught.value.remedy)
    assert not (tmp_path / "out.parquet").exists()
