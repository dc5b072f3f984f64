"""Perfetto traces as text: the same rows as those of the trace that the text stands for."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES
from google.protobuf import text_format
from perfetto_reference import Trace

import ktrace
from ktrace.converters.perfetto_text import probe
from ktrace.errors import DamagedInput
from ktrace.input.format import Score
from ktrace.input.source import Sample

SAMPLE = SAMPLES / "perfetto-text/comments-extensions-and-a-flow.textproto"
KINETO = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def score(text: str) -> Score | None:
    match = probe(Sample("run.txt", text.encode()))
    return match.score if match else None


def test_a_trace_printed_as_text_gives_the_same_rows(tmp_path: Path) -> None:
    binary, text = tmp_path / "run.perfetto", tmp_path / "run.textproto"
    ktrace.convert(KINETO, binary)
    text.write_text(text_format.MessageToString(Trace.FromString(binary.read_bytes())), "utf-8")
    ours, theirs = ktrace.read(text), ktrace.read(binary)
    assert len(ours.events) == len(ktrace.read(KINETO).events)
    for record in ("events", "links"):
        pd.testing.assert_frame_equal(getattr(ours, record), getattr(theirs, record))
    assert ours.report.reader == theirs.report.reader


def test_the_figures_are_those_of_the_sample() -> None:
    trace = ktrace.read(SAMPLE)
    rows = trace.events.sort_values("ts")
    assert list(zip(rows["kind"], rows["name"], rows["ts"], rows["dur"].fillna(0), strict=True)) == [
        ("api", "cudaLaunchKernel", 1000, 400),
        ("kernel", "gemm(float*)", 2000, 1500),
        ("instant", "done", 5000, 0),
    ]
    assert '"note":"a \\"quote\\" and é"' in rows["args"].iloc[0] and '"$gpu_api":4' in rows["args"].iloc[0]
    links = trace.links
    assert sorted(zip(links["link"], links["key"], links["role"], strict=True)) == [
        ("flow", "9", "in"),
        ("flow", "9", "out"),
        ("launch", "17", "in"),
        ("launch", "17", "out"),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('packet { timestamp: 1 track_event { name: "a', "1:43"),
        ("packet { timestamp: 1\n no_such_field: 5 }", "2:2"),
        ("packet { timestamp: x }", "1:21"),
    ],
)
def test_what_the_package_doesn_t_know_is_refused_with_its_place(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "run.textproto"
    path.write_text(text, "utf-8")
    with pytest.raises(DamagedInput, match=f"as text: {where}"):
        ktrace.read(path)


def test_extensions_that_aren_t_known_are_left_out_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "run.textproto"
    unknown = "[com.android.art.Heap.graph] { pid: 1 nested { text: 'x [a.b] y' } }"
    mark = 'track_event { type: TYPE_INSTANT name: "mark" }'
    path.write_text(
        f"packet {{ timestamp: 1 }}\npacket {{ timestamp: 2 {unknown} {mark} }}\npacket {{ {unknown} }}\n", "utf-8"
    )
    trace = ktrace.read(path)
    assert list(trace.events["name"]) == ["mark"]
    assert trace.report.issues["unknown-field"].places == [("line 2", "the extension com.android.art.Heap.graph")]
    assert trace.report.issues["unknown-field"].rows == 2
    assert "unknown-field" not in ktrace.read(SAMPLE).report.issues


def test_what_is_a_trace_as_text() -> None:
    assert score(SAMPLE.read_text("utf-8")) == Score.DIALECT
    assert score("\ufeff\n# a\npacket: <\n  timestamp: 1\n>\n") == Score.DIALECT
    assert score("packet { clock_snapshot { } }") == Score.DIALECT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "packet loss: 5 %\ntimestamp: 1\n",
        "packet { size: 4 }",
        'planes { name: "/host:CPU" }',
        "# packet { timestamp: 1 }",
    ],
)
def test_what_is_none(text: str) -> None:
    assert score(text) is None
