"""`ktrace convert` says how kernels in Parquet get their labels, where they have none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import SAMPLES
from fork_server import program

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
NOTE = "kernels have no operation, library and precision; --classify adds them"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("a.parquet", [], True),
        ("a.parquet", ["--classify"], False),
        ("a.parquet", ["--kind", "api"], False),
        ("a.parquet", ["--table", "links"], False),
        ("a.csv", [], False),
    ],
)
def test_the_note_is_there_where_labels_are_missing(tmp_path: Path, name: str, options: list[str], said: bool) -> None:
    arguments = ["convert", str(STEP), "-o", str(tmp_path / name), *options]
    run = [program(), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "wrote" in done.stderr
    assert (NOTE in done.stderr) == said
