"""Traces in pages of trace2html: the same rows as those of the trace without the page."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import DamagedInput, UnknownFormat

FOLDER = SAMPLES / "trace2html"
TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
PAGE = (FOLDER / "two-traces.html").read_text("utf-8")


def page(tmp_path: Path, *data: str, viewer: str = "") -> Path:
    head, _, rest = PAGE.partition('<script id="viewer-data"')
    end = rest.rpartition("</script>\n")[2]
    scripts = (f'<script id="viewer-data" type="text/plain">\n{one}\n</script>\n' for one in data)
    path = tmp_path / "run.html"
    path.write_text(head + viewer + "".join(scripts) + end, "utf-8")
    return path


def packed(value: object) -> str:
    return base64.b64encode(gzip.compress(json.dumps(value).encode())).decode()


def event(name: str) -> dict[str, object]:
    return {"traceEvents": [{"ph": "X", "name": name, "pid": 1, "tid": 2, "ts": 10, "dur": 5}]}


def test_a_trace_in_a_page_gives_the_same_rows_as_the_trace() -> None:
    inside, alone = ktrace.read(FOLDER / "a-trace-of-pytorch.html"), ktrace.read(TRACE)
    for record in ("events", "links"):
        ours, theirs = (getattr(trace, record).drop(columns="source") for trace in (inside, alone))
        pd.testing.assert_frame_equal(ours, theirs)
    assert len(inside.events) == 65
    assert inside.report.reader.taken == alone.report.reader.taken


def test_the_first_trace_is_read_and_the_others_are_reported() -> None:
    trace = ktrace.read(FOLDER / "two-traces.html")
    assert list(trace.events["name"]) == ["gemm", "mark"]
    assert trace.report.reader.removed == {"unrecognised": 1} and trace.report.balanced()
    assert trace.report.issues["unrecognised"].places == [("trace 2", "a further trace of the page")]


@pytest.mark.parametrize("size", [0, 1 << 18, (1 << 18) - 700, 3 << 20])
def test_a_trace_behind_a_viewer_of_any_size_is_found(tmp_path: Path, size: int) -> None:
    data = [packed([event("a")["traceEvents"][0]] * 4000), packed(event("b"))]  # type: ignore[index]
    trace = ktrace.read(page(tmp_path, *data, viewer="<script>" + "x" * size + "</script>\n"))
    assert list(trace.events["name"]) == ["a"] * 4000
    assert trace.report.reader.removed["unrecognised"] == 1


def test_base64_in_lines_and_a_trace_that_isn_t_compressed(tmp_path: Path) -> None:
    data = base64.encodebytes(json.dumps(event("a")).encode()).decode()
    assert list(ktrace.read(page(tmp_path, data), from_="trace2html").events["name"]) == ["a"]


def test_a_trace_that_is_cut_off_is_read_up_to_the_cut(tmp_path: Path) -> None:
    lines = "[\n" + "".join(f'{{"ph":"X","name":"s{i}","pid":1,"tid":2,"ts":{i},"dur":1}},\n' for i in range(9000))
    text = base64.b64encode(gzip.compress(lines.encode())).decode()
    path = page(tmp_path, text)
    path.write_bytes(path.read_bytes()[: -len(text) // 2])
    trace = ktrace.read(path, from_="trace2html")
    assert 0 < len(trace.events) < 9000 and "cut" in trace.report.issues


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ((), DamagedInput),
        ((base64.b64encode(b"no trace").decode(),), UnknownFormat),
        ((base64.b64encode(PAGE.encode()).decode(),), DamagedInput),
    ],
)
def test_pages_without_a_trace_are_refused(tmp_path: Path, data: tuple[str, ...], error: type[Exception]) -> None:
    path = page(tmp_path, *data)
    with pytest.raises(error, match=r"run\.html"):
        ktrace.read(path, from_="trace2html")


def test_a_bomb_in_a_page_is_refused(tmp_path: Path) -> None:
    bomb = b'[{"ph":"X","name":"a","ts":1,"dur":1},' + b" " * (8 << 20)
    path = page(tmp_path, base64.b64encode(gzip.compress(bomb)).decode())
    with pytest.raises(DamagedInput, match=r"unpacked|times"):
        ktrace.read(path, from_="trace2html", limits="unpacked=1MiB,ratio=10")
