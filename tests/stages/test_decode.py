"""Names of device work that C++ compilers encoded are decoded in every format; the source's stay as an argument."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import ktrace
from ktrace.model.batch import Batch
from ktrace.stages.names import MANGLED, with_decoded_names

_ROWS = [
    ("kernel", "_Z3addPf.kd"),
    ("range", "_Z3addPf"),
    ("kernel", "gemm"),
    ("kernel", "_Z"),
    ("kernel", "_Z3addPf.kd"),
]


@pytest.mark.parametrize("dictionary", [True, False])
def test_only_device_work_is_decoded(dictionary: bool) -> None:
    kinds, names = (pa.array(column, pa.string()) for column in zip(*_ROWS, strict=True))
    if dictionary:
        kinds, names = kinds.dictionary_encode(), names.dictionary_encode()
    batch = Batch("events", pa.RecordBatch.from_arrays([kinds, names], names=["kind", "name"]))
    decoded = with_decoded_names(batch)
    shown = ["add(float*) [clone .kd]", "_Z3addPf", "gemm", "_Z", "add(float*) [clone .kd]"]
    assert decoded.column("name").to_pylist() == shown
    assert decoded.columns.column(MANGLED).to_pylist() == ["_Z3addPf.kd", None, None, None, "_Z3addPf.kd"]
    assert with_decoded_names(decoded) is decoded


def test_a_batch_without_encoded_names_stays() -> None:
    columns = [pa.array(["kernel"]), pa.array(["gemm"])]
    batch = Batch("events", pa.RecordBatch.from_arrays(columns, names=["kind", "name"]))
    assert with_decoded_names(batch) is batch


def test_kineto_of_rocm(tmp_path: Path) -> None:
    """As it is read and as it is written again; classified by the decoded name."""
    name = "_ZN5aiter4normIDF16bEEvPT_.kd"
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": 1.0,
        "dur": 2.0,
    }
    path = tmp_path / "t.pt.trace.json"
    args = {"device": 0, "stream": 7, "correlation": 1}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel | {"args": args}]}))
    row = ktrace.read(path).classify().events.iloc[0]
    assert (row["name"], row["library"], row["precision"], row["short_name"]) == (
        "void aiter::norm<__bf16>(__bf16*) [clone .kd]",
        "AITER",
        "bf16",
        "norm",
    )
    assert json.loads(row["args"])["mangled_name"] == name
    ktrace.convert(path, tmp_path / "t.perfetto")
    again = ktrace.read(tmp_path / "t.perfetto").events.query("kind == 'kernel'").iloc[0]
    assert again["name"] == row["name"]
    assert json.loads(again["args"])["mangled_name"] == name
