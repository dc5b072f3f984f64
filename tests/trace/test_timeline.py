"""The small timeline of a trace in a notebook: busy shares by pixel, against a sum over all nanoseconds."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
from conftest import SAMPLES

import ktrace
from ktrace.model.batch import Batch
from ktrace.trace.notebook import BINS, TRACKS, _busy, timeline
from ktrace.trace.trace import Trace

SVG = "{http://www.w3.org/2000/svg}"


def trace_of(**columns: object) -> Trace:
    length = len(columns["ts"])  # type: ignore[arg-type]
    fixed = {"source": "a", "kind": "kernel", "name": "k", "timing": "measured"}
    given = {name: pa.array(values) for name, values in columns.items()}
    arrays = (
        {name: pa.array([value] * length) for name, value in fixed.items()} | {"id": pa.array(range(length))} | given
    )
    return Trace([Batch("events", pa.RecordBatch.from_pydict(arrays))])


def drawn(trace: Trace) -> ET.Element:
    return ET.fromstring(svg_of(trace._repr_html_()))


def svg_of(html: str) -> str:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    return base64.b64decode(found[1]).decode() if found else ""


def test_busy_times_are_those_of_every_moment() -> None:
    rng = np.random.default_rng(5)
    begin = rng.integers(0, 2_000, 300)
    end = np.minimum(begin + rng.integers(0, 300, 300), 2_400)
    colour = rng.integers(0, 3, 300)
    moments = np.zeros((3, 2_400))
    for first, last, kind in zip(begin, end, colour, strict=True):
        moments[kind, first:last] += 1
    expected = moments.reshape(3, BINS, 10).mean(axis=2)
    np.testing.assert_allclose(_busy(begin / 10, end / 10, colour, 3), expected, atol=1e-9)


def test_a_stream_that_is_always_busy_is_a_full_bar() -> None:
    root = drawn(trace_of(ts=[0, 50, 100], dur=[50, 50, 100], stream=[7, 7, 7], device=[0, 0, 0]))
    (path,) = root.iter(f"{SVG}path")
    assert path.get("d") == "M170.0 0.0h590.0v18.0h-590.0z"


def test_each_stream_is_a_track_with_its_figures() -> None:
    root = drawn(ktrace.read(SAMPLES / "kineto/one-step-of-training.pt.trace.json"))
    titles = [node.text for group in root.iter(f"{SVG}g") for node in group.findall(f"{SVG}title")]
    assert titles == [
        "stream 7: 13 times, 714.264 us, 74.2% of the span",
        "stream 20: 2 times, 215.806 us, 22.4% of the span",
    ]
    words = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    assert {"stream 7", "stream 20", "gemm", "collective", "962.021 us"} <= {*words}


def test_without_device_work_there_are_threads() -> None:
    root = drawn(trace_of(ts=[0, 5], dur=[5, 5], kind=["op", "api"], pid=[1, 1], tid=[3, 4]))
    assert ["".join(node.itertext()) for node in root.iter(f"{SVG}text")][:2] == ["thread 3", "thread 4"]


def test_there_may_be_nothing_to_draw() -> None:
    assert timeline(trace_of(ts=[1], dur=pa.array([None], pa.int64())).to_arrow()["events"]) == []
    assert svg_of(ktrace.read(SAMPLES / "doppler/prefill-and-three-decodes.log")._repr_html_()) == ""
    point = trace_of(ts=[2**62], dur=[0])._repr_html_()
    assert "stream" in svg_of(point)


def test_many_events_are_a_small_drawing() -> None:
    rng = np.random.default_rng(1)
    count = 100_000
    trace = trace_of(
        ts=np.sort(rng.integers(0, 10**10, count)),
        dur=rng.integers(1, 10**6, count),
        stream=rng.integers(0, 20, count),
        name=pa.array([f"gemm{number}" for number in range(50)]).take(pa.array(rng.integers(0, 50, count))),
    )
    html = trace._repr_html_()
    assert len(html) < 80_000
    assert svg_of(html).count("<g>") == TRACKS
    assert f"{20 - TRACKS} more" in svg_of(html)
